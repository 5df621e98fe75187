"""Log-probabilities, entropies and what the environment gets, against hand-worked values and torch.distributions."""

import math
import unittest

import numpy as np
import torch

from ddp_ppo.config.settings import describe_settings
from ddp_ppo.maths.distributions import (
    LOG_RATIO_MAX,
    LOG_STD_MAX,
    LOG_STD_MIN,
    categorical_logp,
    gaussian_entropy,
    gaussian_logp,
    log_softmax,
    prepare_action,
)


class PrepareActionTest(unittest.TestCase):
    def test_environment_gets_the_clipped_action_and_the_policy_keeps_its_sample(self):  # O-12
        policy_action, env_action = prepare_action(np.array([2.0], np.float32), [-1.0], [1.0])
        self.assertEqual((policy_action[0], env_action[0]), (2.0, 1.0))

    def test_each_dimension_has_its_own_bounds(self):
        sample = np.array([[-3.0, -3.0, -3.0], [3.0, 3.0, 3.0], [0.25, 0.25, 0.25]], np.float32)
        low, high = [-1.0, 0.0, -np.inf], [1.0, 0.5, np.inf]
        policy_action, env_action = prepare_action(sample, low, high)
        np.testing.assert_array_equal(policy_action, sample)
        np.testing.assert_array_equal(env_action, [[-1, 0, -3], [1, 0.5, 3], [0.25, 0.25, 0.25]])
        self.assertEqual(env_action.dtype, np.float32)

    def test_sample_itself_is_not_written_to(self):
        sample = np.array([5.0, -5.0])
        prepare_action(sample, [-1, -1], [1, 1])
        np.testing.assert_array_equal(sample, [5, -5])


class GaussianTest(unittest.TestCase):
    def test_raw_sample_outside_the_bounds_has_its_own_log_probability(self):  # O-12
        zeros = np.zeros(1)
        self.assertAlmostEqual(gaussian_logp(np.array([2.0]), zeros, zeros, np.ones(1)), -2.918939, 6)
        self.assertAlmostEqual(gaussian_logp(np.array([1.0]), zeros, zeros, np.ones(1)), -1.418939, 6)

    def test_entropy_of_three_unit_dimensions(self):  # O-14
        self.assertAlmostEqual(gaussian_entropy(np.zeros(3)), 4.256816, 6)

    def test_dimensions_are_summed_and_leading_ones_kept(self):  # O-14
        generator = np.random.default_rng(0)
        act, mean = generator.normal(size=(2, 5, 4, 3))
        log_std = np.array([-1.0, 0.0, 0.5])
        normal = torch.distributions.Normal(torch.tensor(mean), torch.tensor(log_std).exp())
        expected = normal.log_prob(torch.tensor(act)).sum(-1)
        logp = gaussian_logp(act, mean, log_std, np.exp(log_std))
        self.assertEqual(logp.shape, (5, 4))
        np.testing.assert_allclose(logp, expected, rtol=1e-12)
        tensors = (torch.tensor(act), torch.tensor(mean), torch.tensor(log_std), torch.tensor(log_std).exp())
        np.testing.assert_allclose(gaussian_logp(*tensors), expected, rtol=1e-12)
        np.testing.assert_allclose(gaussian_entropy(log_std), normal.entropy()[0, 0].sum(), rtol=1e-12)
        np.testing.assert_allclose(gaussian_entropy(tensors[2]), normal.entropy()[0, 0].sum(), rtol=1e-12)


class CategoricalTest(unittest.TestCase):
    def test_uniform_logits(self):
        logp = categorical_logp(np.array([0, 1, 2, 2, 0]), np.zeros((5, 3)))
        self.assertEqual(logp.shape, (5,))
        np.testing.assert_allclose(logp, -math.log(3))

    def test_known_probabilities(self):
        logits = np.log([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]]) + np.array([[3.0], [-100.0]])  # a shift changes nothing
        np.testing.assert_allclose(np.exp(log_softmax(logits)), [[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]], rtol=1e-9)
        np.testing.assert_allclose(categorical_logp(np.array([1, 2]), logits), np.log([0.25, 0.7]), rtol=1e-9)

    def test_huge_logits_neither_overflow_nor_vanish(self):
        logits = np.array([[1e4, 0.0], [-1e4, -1e4], [-3e38, 3e38]], np.float32)
        expected = [[0.0, -1e4], [-math.log(2), -math.log(2)]]
        with np.errstate(over="ignore"):  # the difference of the last row is above float32
            result = log_softmax(logits)
        np.testing.assert_allclose(result[:2], expected, rtol=1e-6)
        self.assertEqual(result[2, 1], 0.0)

    def test_leading_dimensions_are_kept(self):
        generator = np.random.default_rng(1)
        logits, act = generator.normal(size=(6, 2, 4)), generator.integers(0, 4, (6, 2))
        expected = torch.distributions.Categorical(logits=torch.tensor(logits)).log_prob(torch.tensor(act))
        np.testing.assert_allclose(categorical_logp(act, logits), expected, rtol=1e-12)


class BoundsTest(unittest.TestCase):
    def test_bounds_keep_float32_finite_and_positive(self):
        std = np.exp(np.array([LOG_STD_MIN, LOG_STD_MAX], np.float32))
        self.assertTrue((std > 1e-3).all() and (std < 10).all())
        self.assertTrue(np.isfinite(np.exp(np.float32(LOG_RATIO_MAX)) ** 2))

    def test_first_log_std_may_be_set_to_what_it_may_become(self):
        setting = {setting.name: setting for setting in describe_settings()}["init_log_std"]
        self.assertEqual((setting.kind.low, setting.kind.high), (LOG_STD_MIN, LOG_STD_MAX))


if __name__ == "__main__":
    unittest.main()
