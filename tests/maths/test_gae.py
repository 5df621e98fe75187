"""Advantages at every kind of boundary, against values worked out by hand and the definition as a sum."""

import unittest

import numpy as np
import torch

from ddp_ppo.maths.gae import accumulate_backwards, compute_gae

NAN = float("nan")


def gae(rewards, values, *, term=(), trunc=(), final=NAN, gamma=0.9, gae_lambda=0.8):
    """Advantages and targets of one environment; `final` is the value of every final observation."""
    num_steps = len(rewards)
    flags = [[[t in ended] for t in range(num_steps)] for ended in (term, trunc)]
    adv, ret = compute_gae(
        np.array(rewards, np.float64)[:, None],
        np.array(values, np.float64)[:, None],
        np.where(flags[1], final, NAN),
        np.array(flags[0]),
        np.array(flags[1]),
        gamma=gamma,
        gae_lambda=gae_lambda,
    )
    return adv[:, 0], ret[:, 0]


def sum_of_td_errors(reward, value, final_value, terminated, truncated, gamma, gae_lambda):
    """Equation 16 of the paper as it stands: A_t = sum of (gamma lambda)^l delta_{t+l}, up to the episode's end."""
    adv = np.zeros(reward.shape)
    for b in range(reward.shape[1]):
        for t in range(len(reward)):
            for i in range(t, len(reward)):
                following = final_value[i, b] if truncated[i, b] else value[i + 1, b]
                following = 0.0 if terminated[i, b] else following
                adv[t, b] += (gamma * gae_lambda) ** (i - t) * (reward[i, b] + gamma * following - value[i, b])
                if terminated[i, b] or truncated[i, b]:
                    break
    return adv


class BoundariesTest(unittest.TestCase):
    def assert_advantages(self, result, adv, ret=None):
        np.testing.assert_allclose(result[0], adv, atol=1e-9)
        if ret is not None:
            np.testing.assert_allclose(result[1], ret, atol=1e-9)

    def test_terminated_step_bootstraps_with_zero(self):  # O-01
        result = gae([1, 1, 1, 1], [0.5] * 5, term=[1])
        self.assert_advantages(result, [1.31, 0.5, 1.634, 0.95], [1.81, 1.0, 2.134, 1.45])

    def test_value_of_the_reset_observation_does_not_reach_the_ended_episode(self):  # O-01
        self.assert_advantages(gae([1, 1, 1], [5, 5, 100, 100], term=[1], gamma=1, gae_lambda=1), [-3, -4, 1])
        self.assert_advantages(gae([1, 1, 1, 1], [0.5, 0.5, 9, 0.5, 0.5], term=[1]), [1.31, 0.5, -6.866, 0.95])

    def test_truncated_step_bootstraps_with_the_final_observation(self):  # O-02
        result = gae([1, 1, 1, 1], [0.5] * 5, trunc=[1], final=2)
        self.assert_advantages(result, [2.606, 2.3, 1.634, 0.95], [3.106, 2.8, 2.134, 1.45])

    def test_terminated_wins_over_truncated(self):  # O-03
        self.assert_advantages(gae([1, 1, 1, 1], [0.5] * 5, term=[1], trunc=[1], final=2), [1.31, 0.5, 1.634, 0.95])

    def test_truncation_at_the_last_step_does_not_read_the_new_episode(self):  # O-04
        self.assert_advantages(gae([1, 1], [0, 0, 100], trunc=[1], final=2, gamma=0.5, gae_lambda=1), [2, 2])

    def test_rollout_that_ends_in_mid_episode_bootstraps_with_the_next_value(self):  # O-05
        self.assert_advantages(gae([1, 1], [0, 0, 10], gamma=0.5, gae_lambda=1), [4, 6])

    def test_recursion_restarts_in_each_of_many_episodes(self):  # O-06
        adv, _ = gae([1] * 2000, [0] * 2001, term=range(1, 2000, 2))
        np.testing.assert_array_equal(adv, [1 + 0.9 * 0.8, 1] * 1000)

    def test_final_values_are_read_only_where_truncated(self):
        self.assertTrue(np.isfinite(gae([1, 1, 1], [0, 0, 0, 0], term=[0], trunc=[1], final=5)).all())


class DefinitionTest(unittest.TestCase):
    def setUp(self):
        self.generator = np.random.default_rng(0)

    def random_rollout(self, num_steps, num_envs):
        normal = self.generator.normal
        final_value = normal(size=(num_steps, num_envs))
        terminated, truncated = (self.generator.random((num_steps, num_envs)) < 0.15 for _ in range(2))
        value = normal(size=(num_steps + 1, num_envs))
        return normal(size=(num_steps, num_envs)), value, np.where(truncated, final_value, NAN), terminated, truncated

    def test_every_length_equals_the_sum_of_discounted_td_errors(self):
        for num_steps in (1, 2, 3, 4, 5, 7, 8, 9, 31, 33, 64):
            for gamma, gae_lambda in ((0.9, 0.8), (1.0, 1.0), (0.99, 0.95), (0.5, 0.0), (0.0, 0.5)):
                with self.subTest(num_steps=num_steps, gamma=gamma, gae_lambda=gae_lambda):
                    rollout = self.random_rollout(num_steps, 3)
                    adv, ret = compute_gae(*rollout, gamma=gamma, gae_lambda=gae_lambda)
                    expected = sum_of_td_errors(*rollout, gamma, gae_lambda)
                    np.testing.assert_allclose(adv, expected, rtol=1e-12, atol=1e-12)
                    np.testing.assert_allclose(ret, expected + rollout[1][:-1], rtol=1e-12, atol=1e-12)

    def test_torch_tensors_give_the_same_as_arrays(self):
        rollout = self.random_rollout(37, 4)
        expected = sum_of_td_errors(*rollout, 0.99, 0.95)
        for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
            tensors = [torch.from_numpy(array) for array in rollout]
            tensors = [tensor.to(dtype) if tensor.is_floating_point() else tensor for tensor in tensors]
            adv, ret = compute_gae(*tensors, gamma=0.99, gae_lambda=0.95)
            self.assertEqual((adv.dtype, ret.dtype), (dtype, dtype))
            np.testing.assert_allclose(adv.numpy(), expected, rtol=tolerance, atol=tolerance)

    def test_float32_rollout_stays_float32_and_close_to_float64(self):
        rollout = self.random_rollout(256, 2)
        single = [array.astype(np.float32) if array.dtype == np.float64 else array for array in rollout]
        adv, ret = compute_gae(*single, gamma=0.99, gae_lambda=0.95)
        self.assertEqual((adv.dtype, ret.dtype), (np.float32, np.float32))
        np.testing.assert_allclose(adv, sum_of_td_errors(*rollout, 0.99, 0.95), rtol=1e-5, atol=1e-5)

    def test_arguments_are_left_as_they_were(self):
        rollout = self.random_rollout(9, 2)
        before = [array.copy() for array in rollout]
        compute_gae(*rollout, gamma=0.9, gae_lambda=0.8)
        for array, copy in zip(rollout, before, strict=True):
            np.testing.assert_array_equal(array, copy)

    def test_flags_may_be_numbers(self):
        reward, value, final_value, terminated, truncated = self.random_rollout(9, 2)
        expected = compute_gae(reward, value, final_value, terminated, truncated, gamma=0.9, gae_lambda=0.8)
        flags = (terminated.astype(np.uint8), truncated.astype(np.float32))
        result = compute_gae(reward, value, final_value, *flags, gamma=0.9, gae_lambda=0.8)
        np.testing.assert_array_equal(result, expected)


class AccumulateTest(unittest.TestCase):
    def test_later_entries_are_added_with_their_decay(self):
        total, decay = np.array([1.0, 2.0, 4.0, 8.0, 16.0]), np.array([0.5, 0.5, 0.0, 0.25, 7.0])
        accumulate_backwards(total, decay)
        np.testing.assert_array_equal(total, [1 + 0.5 * 4, 2 + 0.5 * 4, 4, 8 + 0.25 * 16, 16])

    def test_reversed_views_run_forwards_in_place(self):
        total, decay = np.array([1.0, 1.0, 1.0, 1.0]), np.array([7.0, 0.5, 0.5, 0.5])
        accumulate_backwards(total[::-1], decay[::-1])
        np.testing.assert_array_equal(total, [1, 1.5, 1.75, 1.875])


if __name__ == "__main__":
    unittest.main()
