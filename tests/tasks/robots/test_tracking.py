"""How well commands are followed: by a robot that stands, and by one that lets itself fall."""

import unittest

import numpy as np

from ddp_ppo.tasks.robots.tracking import COMMANDS, Tracking, follow


def stand(obs):
    """Keeps the standing pose."""
    return np.zeros((len(obs), 12), np.float32)


def fold(obs):
    """Folds all legs, which leaves 5 cm below the trunk."""
    return np.tile(np.float32([0.0, -1.0, -1.0]), (len(obs), 4))


class TrackingTest(unittest.TestCase):
    def test_who_stands_follows_the_command_to_stand_and_misses_others_by_their_size(self):
        commands = [(2.0, 0.0, 0.0, 0.0), (1.0, 0.6, -0.8, 0.0), (1.0, 0.0, 0.0, 0.5)]
        found = follow(stand, commands=commands, episodes=3, has_randomisation=False)
        self.assertEqual(found.falls, 0)
        expected = [(0.0, 0.0), (1.0, 0.0), (0.0, 0.5)]
        np.testing.assert_allclose(found.by_command, expected, atol=0.1)
        self.assertAlmostEqual(found.error_velocity, 0.25, delta=0.05)
        self.assertAlmostEqual(found.error_turn, 0.125, delta=0.05)
        self.assertFalse(found.is_standard)

    def test_falls_are_counted(self):
        self.assertGreater(follow(fold, commands=[(2.0, 0.0, 0.0, 0.0)], episodes=3).falls, 2)

    def test_the_standard_asks_for_both_errors_and_no_fall(self):
        for velocity, turn, falls, is_met in (
            (0.14, 0.19, 0, True),
            (0.16, 0.1, 0, False),
            (0.1, 0.21, 0, False),
            (0.1, 0.1, 1, False),
        ):
            found = Tracking(error_velocity=velocity, error_turn=turn, falls=falls, by_command=())
            self.assertEqual(found.is_standard, is_met)

    def test_the_commands_take_20_seconds(self):
        self.assertEqual(sum(row[0] for row in COMMANDS), 20.0)


if __name__ == "__main__":
    unittest.main()
