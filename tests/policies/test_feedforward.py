"""Values of a rollout in one batch: every row's own, and the last observation's only where an episode was truncated."""

import unittest

import numpy as np

from ddp_ppo.policies.feedforward import rollout_values


class RolloutValuesTest(unittest.TestCase):
    def test_truncated_steps_have_the_value_of_their_final_observation_and_others_0(self):
        obs = np.arange(12, dtype=np.float32).reshape(3, 2, 2)  # T = 2, K = 2, D = 2
        final_obs = np.full((2, 2, 2), 100.0, np.float32)
        truncated = np.array([[False, True], [False, False]])
        slices = {"obs": obs, "final_obs": final_obs, "truncated": truncated}
        value, final_value = rollout_values(lambda rows: rows.sum(axis=1), slices)
        self.assertEqual(value.tolist(), [[1, 5], [9, 13], [17, 21]])
        self.assertEqual(final_value.tolist(), [[0, 200], [0, 0]])


if __name__ == "__main__":
    unittest.main()
