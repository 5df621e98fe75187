"""Mappings and lists that cannot be changed."""

import copy
import json
import operator
import pickle
import unittest

from ddp_ppo.config.frozen import FrozenDict, FrozenList, frozen

VALUE = {"a": [1, {"b": 2}], "c": {}}


class FrozenTest(unittest.TestCase):
    def test_it_equals_what_it_was_made_of_and_is_a_copy(self):
        given = copy.deepcopy(VALUE)
        found = frozen(given)
        given["a"].append(3)
        self.assertEqual(found, VALUE)
        self.assertEqual(json.dumps(found), json.dumps(VALUE))
        self.assertEqual((type(found), type(found["a"]), type(found["a"][1])), (FrozenDict, FrozenList, FrozenDict))

    def test_it_travels_and_stays_what_it_is(self):
        for found in (pickle.loads(pickle.dumps(frozen(VALUE))), copy.deepcopy(frozen(VALUE))):
            self.assertEqual((found, type(found), type(found["a"])), (VALUE, FrozenDict, FrozenList))

    def test_equal_ones_have_the_same_hash(self):
        self.assertEqual(hash(frozen(VALUE)), hash(frozen({"c": {}, "a": [1, {"b": 2}]})))
        self.assertEqual(len({frozen(VALUE), frozen(VALUE), frozen({"a": []})}), 2)

    def test_every_way_to_change_it_is_refused(self):
        found, before = frozen(VALUE), copy.deepcopy(VALUE)

        def unite(target, more):
            target |= more

        def add(target, more):
            target += more

        changes = [(unite, found, {"d": 1}), (add, found["a"], [1])]
        for target, key in ((found, "a"), (found["a"], 0)):
            changes += [(operator.setitem, target, key, 1), (operator.delitem, target, key)]
        for name, *arguments in (("pop", "a"), ("popitem",), ("setdefault", "z", 1), ("update", {"a": 1}), ("clear",)):
            changes.append((getattr(type(found), name), found, *arguments))
        for name, *arguments in (
            *(("append", 1), ("extend", [1]), ("insert", 0, 1), ("pop",), ("remove", 1)),
            *(("clear",), ("reverse",), ("sort",), ("__imul__", 2)),
        ):
            changes.append((getattr(type(found["a"]), name), found["a"], *arguments))
        for change, *arguments in changes:
            with self.subTest(change.__name__), self.assertRaisesRegex(TypeError, "settings cannot be changed"):
                change(*arguments)
        self.assertEqual(found, before)


if __name__ == "__main__":
    unittest.main()
