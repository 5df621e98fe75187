"""A round's data: shapes of its arrays, when it counts, and how rewards are scaled."""

import unittest

import numpy as np
import torch

from ddp_ppo.sampling.rollout import RAW, Field, Normalization, Rollout, rollout_shapes, scale_reward


class ShapesTest(unittest.TestCase):
    def test_rows_and_columns_come_first(self):
        fields = (Field("obs", "float32", (4,), extra_rows=1), Field("reward", "float32"), Field("done", "bool"))
        expected = {"obs": ("float32", (9, 3, 4)), "reward": ("float32", (8, 3)), "done": ("bool", (8, 3))}
        self.assertEqual(rollout_shapes(fields, 8, 3), expected)


class RolloutTest(unittest.TestCase):
    def test_samples_count_from_fill_to_clear(self):  # C15
        rollout = Rollout({"reward": np.zeros((8, 3), np.float32), "obs": np.zeros((9, 3, 4), np.float32)})
        self.assertEqual(rollout.buffer_size, 0)
        rollout.fill()
        self.assertEqual(rollout.buffer_size, 24)
        rollout.clear()
        self.assertEqual(rollout.buffer_size, 0)

    def test_it_says_what_it_was_normalised_with_last(self):
        rollout = Rollout({"reward": np.zeros((8, 3), np.float32)})
        self.assertEqual(rollout.normalization, RAW)
        rollout.fill(Normalization(None, 0.25))
        self.assertEqual(rollout.normalization.reward_scale, 0.25)
        rollout.fill()
        self.assertEqual(rollout.normalization, RAW)

    def test_arrays_are_found_by_name_and_not_copied(self):
        reward = np.zeros((8, 3), np.float32)
        rollout = Rollout({"reward": reward})
        rollout["reward"][2, 1] = 5.0
        self.assertEqual(reward[2, 1], 5.0)


class ShuffledTest(unittest.TestCase):
    def rollout(self, num_steps=6, num_envs=4):
        return Rollout({"reward": np.zeros((num_steps, num_envs), np.float32)})

    def test_single_samples_come_in_the_order_of_a_permutation(self):
        order = self.rollout().shuffled(1, np.random.default_rng(3))
        self.assertEqual(order.tolist(), [np.random.default_rng(3).permutation(24).tolist()])

    def test_sequences_are_steps_of_one_environment_in_a_row(self):
        order = self.rollout().shuffled(3, np.random.default_rng(3))
        self.assertEqual(order.shape, (3, 8))
        self.assertEqual(sorted(order.ravel().tolist()), list(range(24)))
        steps, envs = order // 4, order % 4
        self.assertTrue((envs == envs[0]).all())
        self.assertTrue((np.diff(steps, axis=0) == 1).all())
        self.assertEqual(set(steps[0].tolist()), {0, 3})


class ScaleRewardTest(unittest.TestCase):
    def test_arrays_and_tensors_are_scaled_then_clipped(self):
        for rewards in (np.array([1.0, -30.0, 30.0]), torch.tensor([1.0, -30.0, 30.0])):
            self.assertEqual(scale_reward(rewards, 0.5, 10.0).tolist(), [0.5, -10.0, 10.0])
            self.assertEqual(scale_reward(rewards, 1.0, float("inf")).tolist(), [1.0, -30.0, 30.0])


if __name__ == "__main__":
    unittest.main()
