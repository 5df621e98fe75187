"""Values written and read back, and the words that YAML 1.1 and 1.2 read differently. Whole files: test_config."""

from __future__ import annotations

import unittest

from ddp_ppo.config.yaml_text import RefusedError, compose, plain_data, resolve, to_yaml


def read(text: str, kind: str = ""):
    """The value of one document where a setting of this kind is wanted."""
    return resolve(compose(text, "here"), kind)


class RoundTripTest(unittest.TestCase):
    def test_what_is_written_is_read_back(self):
        values = [None, True, False, 0, -7, 10**17, 0.1, 1e-300, -2.5e300, float("inf"), float("-inf"), [], {}]
        values += [
            "",
            " ",
            "no",
            "null",
            "1e3",
            "a: b # c",
            "ö\n\t'\"\\",
            "- x",
            "{",
            "2026-01-01",
            [1, ["a", {"b": None}]],
        ]
        values += [{"on": {"x y": [0.5, "1"]}}]
        for value in values:
            with self.subTest(value=value):
                again = read(to_yaml(value))
                self.assertEqual(again, value)
                self.assertIs(type(again), type(value))

    def test_a_copy_is_deep_and_plain(self):
        inner = (1, 2)
        copy = plain_data({"a": [inner]})
        self.assertEqual(copy, {"a": [[1, 2]]})
        for value in (float("nan"), {1: 2}, object(), b"x", [{"a": {3}}]):
            with self.subTest(value=value), self.assertRaises(RefusedError):
                plain_data(value)


class ScalarTest(unittest.TestCase):
    def test_numbers_are_those_of_yaml_1_2(self):
        for text, value in {"1e6": 1e6, "1_000": 1000, ".5": 0.5, "-3": -3, "5.": 5.0, ".inf": float("inf")}.items():
            with self.subTest(text=text):
                self.assertEqual(read(text), value)
        self.assertEqual((read("1e6", "int"), type(read("1e6", "int"))), (1_000_000, int))

    def test_what_yaml_1_1_reads_differently_is_refused_with_what_to_write(self):
        for text, hint in {"no": "write false", "On": "write true", "010": "without a leading zero"}.items():
            with self.subTest(text=text), self.assertRaisesRegex(RefusedError, hint):
                read(text)
        self.assertEqual(read("no", "str"), "no")
        with self.assertRaisesRegex(RefusedError, 'quote it if it is meant as text: "1e3"'):
            read("1e3", "str")

    def test_tags_and_broken_documents_are_refused(self):
        for text in ("!!python/object/apply:os.system [ls]", "!!int 3", "!own x"):
            with self.subTest(text=text), self.assertRaisesRegex(RefusedError, "tag"):
                read(text)
        with self.assertRaisesRegex(RefusedError, r"^here:2: not valid YAML"):
            read("a: 1\nb: [")


if __name__ == "__main__":
    unittest.main()
