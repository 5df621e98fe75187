"""What the quadruped observes: the layout of 45 measured columns, privileged ones, and their mirror images."""

import unittest

from ddp_ppo.tasks.robots.columns import observation
from ddp_ppo.tasks.robots.model import load_robot

MEASURED = [
    ("angular_velocity", 3),
    ("gravity", 3),
    ("command", 3),
    ("joint_angle", 12),
    ("joint_velocity", 12),
    ("last_action", 12),
]


class ColumnsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.robot = load_robot()

    def groups(self, *, noise=1.0, has_terrain=True):
        return observation(self.robot, noise=noise, has_terrain=has_terrain)

    def test_the_measured_columns_are_the_45_of_the_layout(self):
        measured = [(group.name, len(group.columns)) for group in self.groups() if not group.is_privileged]
        self.assertEqual(measured, MEASURED)

    def test_privileged_columns_follow_them_and_are_exact(self):
        groups = self.groups()[len(MEASURED) :]
        self.assertTrue(all(group.is_privileged and group.noise == 0.0 for group in groups))
        names = [group.name for group in groups]
        self.assertEqual(
            names, ["velocity", "height", "foot_force", "push", "friction", "payload", "motor_strength", "ground"]
        )

    def test_the_ground_is_seen_only_if_it_is_uneven(self):
        self.assertNotIn("ground", [group.name for group in self.groups(has_terrain=False)])

    def test_noise_can_be_switched_off(self):
        self.assertEqual({group.noise for group in self.groups(noise=0.0)}, {0.0})

    def test_every_mirror_image_swaps_back_to_the_original(self):
        for group in self.groups():
            with self.subTest(group.name):
                mirror = group.mirror or [(index, 1.0) for index in range(len(group.columns))]
                self.assertEqual(sorted(index for index, _ in mirror), list(range(len(group.columns))))
                for place, (index, sign) in enumerate(mirror):
                    self.assertEqual(mirror[index], (place, sign))


if __name__ == "__main__":
    unittest.main()
