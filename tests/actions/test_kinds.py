"""The tables find an action space by the fields of an EnvSpec, and a distribution by the name in a NetworkSpec."""

import unittest

from ddp_ppo.actions.kinds import ACTIONS, HEADS, action_of
from ddp_ppo.protocols import EnvSpec


class TablesTest(unittest.TestCase):
    def test_an_env_spec_gives_its_action_space(self):
        box = EnvSpec("A", 3, "box", 2, (-1.0, 0.0), (1.0, 2.0)).action
        self.assertEqual((box.kind, box.low.tolist(), box.high.tolist()), ("box", [-1, 0], [1, 2]))
        discrete = EnvSpec("A", 3, "discrete", 4, action_start=1).action
        self.assertEqual((discrete.kind, discrete.num_choices, discrete.describe()), ("discrete", 4, "4 discrete"))

    def test_every_head_is_found_again_by_its_name(self):
        for fields in (EnvSpec("A", 3, "box", 2, (-1.0,) * 2, (1.0,) * 2), EnvSpec("A", 3, "discrete", 4)):
            head = fields.action.head
            self.assertIs(type(HEADS[head.name](head.num_outputs)), type(head))

    def test_every_row_says_its_own_name(self):
        fields = {"action_low": (0.0,), "action_high": (1.0,), "action_size": 1, "action_start": 0}
        self.assertEqual([action_of({**fields, "action_kind": kind}).kind for kind in ACTIONS], [*ACTIONS])
        self.assertEqual([HEADS[name](2).name for name in HEADS], [*HEADS])

    def test_an_unknown_kind_is_refused_by_name(self):
        with self.assertRaisesRegex(ValueError, "action_kind: 'words' is not one of box, discrete"):
            action_of({"action_kind": "words"})


if __name__ == "__main__":
    unittest.main()
