"""What `envs.inspection` finds in a vectorised task: names of columns, bodies that overlap."""

import unittest

import numpy as np

from ddp_ppo.envs.inspection import first_overlap, names_of
from ddp_ppo.tasks.robots.quadruped import Quadruped
from tests.support.cart_task import CartTask


class SnapshotTest(unittest.TestCase):
    def test_a_column_that_is_not_finite_has_its_name(self):
        task = CartTask(2)
        task.reset([1, 2])
        self.assertEqual(names_of(task, 1, 3), ("", "pole.rate"))

    def test_a_position_that_is_not_finite_is_named_by_its_joint(self):
        task = CartTask(2)
        task.reset([1, 2])
        task.sim.qpos[1, 0] = np.nan
        self.assertEqual(names_of(task, 1, 1)[0], "qpos[0] (slide.position)")

    def test_bodies_that_overlap_after_a_reset_are_named(self):
        task = Quadruped(1)
        task.reset([1])
        self.assertEqual(first_overlap(task), "")
        task.sim.qpos[0, 2] -= 0.25
        self.assertRegex(first_overlap(task), r"^world and \w+ overlap by 0.2")


if __name__ == "__main__":
    unittest.main()
