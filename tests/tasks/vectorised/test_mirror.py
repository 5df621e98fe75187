"""The symmetry that a task declares, as permutations and signs."""

import unittest
from dataclasses import replace

import numpy as np

from ddp_ppo.tasks.vectorised.design import Group
from ddp_ppo.tasks.vectorised.mirror import mirror_of
from tests.support.cart_task import CartTask


def nothing(task):
    """What a group reads; never called here."""
    raise AssertionError(task)


class MirrorTest(unittest.TestCase):
    def setUp(self):
        groups = (
            Group(name="legs", columns=("left", "right"), unit="1", read=nothing, mirror=((1, 1.0), (0, -1.0))),
            Group(name="height", columns=("z",), unit="m", read=nothing),
        )
        self.design = replace(CartTask(1).design, obs=groups, action_mirror=((1, 1.0), (0, -2.0)))

    def test_columns_change_places_and_signs_within_their_group(self):
        mirror = mirror_of(self.design)
        np.testing.assert_array_equal(mirror.obs(np.array([[1.0, 2.0, 3.0]], np.float32)), [[2.0, -1.0, 3.0]])
        np.testing.assert_array_equal(mirror.action(np.array([5.0, 7.0], np.float32)), [7.0, -10.0])

    def test_a_task_without_a_symmetry_has_none(self):
        self.assertIsNone(mirror_of(replace(self.design, action_mirror=())))


if __name__ == "__main__":
    unittest.main()
