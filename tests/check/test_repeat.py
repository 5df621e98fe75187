"""Where a state is saved; the planted faults are in test_check."""

import unittest

import numpy as np

from ddp_ppo.check.repeat import mid_episode


class MidEpisodeTest(unittest.TestCase):
    def ended(self, *steps, num_steps=100):
        """[T, K] with ends after these steps of each environment."""
        flags = np.zeros((num_steps, len(steps)), bool)
        for column, ends in enumerate(steps):
            flags[np.array(ends, int) - 1, column] = True
        return flags

    def test_it_is_as_far_from_starts_and_ends_as_can_be(self):
        self.assertEqual(mid_episode(self.ended([], [])), 50)
        self.assertEqual(mid_episode(self.ended([50, 100], [50, 100])), 25)
        self.assertEqual(mid_episode(self.ended([20], [])), 60)
        self.assertEqual(mid_episode(self.ended([40], [80])), 20)  # 20 from 0 and 40; 60 is as far

    def test_episodes_of_one_step_have_no_middle(self):
        self.assertEqual(mid_episode(np.ones((100, 2), bool)), 1)


if __name__ == "__main__":
    unittest.main()
