"""The PPO loss against values worked out by hand and against finite differences."""

import math
import unittest

import numpy as np
import torch

from ddp_ppo.learners.ppo.loss import Batch, ppo_loss, value_error
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.policies.torch_policy import ActorCritic
from tests.support.fixtures import random_parameters
from tests.support.losses import LINEAR, SETTINGS, batch, linear_policy, settings

torch.set_num_threads(1)  # threads that wait for each other make tiny products 10 times slower on a busy machine


class LossTest(unittest.TestCase):
    def test_surrogate_is_clipped_where_that_is_worse_only(self):
        losses = ppo_loss(linear_policy(), batch([1.5, 1.5, 0.5, 0.5], [1.0, -1.0, 1.0, -1.0]), SETTINGS)
        self.assertAlmostEqual(float(losses.policy_loss), (-1.2 + 1.5 - 0.5 + 0.8) / 4, 6)

    def test_approximate_kl_and_clip_fraction(self):
        losses = ppo_loss(linear_policy(), batch([1.5, 0.5, 1.1, 1.0], [1.0] * 4), SETTINGS)
        expected = (0.5 - math.log(1.5)) + (-0.5 - math.log(0.5)) + (0.1 - math.log(1.1))
        self.assertAlmostEqual(float(losses.approx_kl), expected / 4, 6)
        self.assertEqual(float(losses.clip_fraction), 0.5)

    def test_same_policy_has_ratio_one(self):
        losses = ppo_loss(linear_policy(), batch([1.0] * 3, [1.0, -2.0, 4.0]), SETTINGS)
        self.assertAlmostEqual(float(losses.policy_loss), -1.0, 6)
        self.assertAlmostEqual(float(losses.approx_kl), 0.0, 6)
        self.assertEqual(float(losses.clip_fraction), 0.0)

    def test_total_weighs_value_error_and_entropy(self):
        samples = batch([1.0, 1.0], [3.0, 1.0], values=[1.0, 2.0], returns=[4.0, 2.0])
        losses = ppo_loss(linear_policy(), samples, settings(value_coef=0.25, entropy_coef=0.1))
        entropy = 0.5 + 0.5 * math.log(2 * math.pi)
        self.assertAlmostEqual(float(losses.value_loss), 4.5, 6)
        self.assertAlmostEqual(float(losses.entropy), entropy, 6)
        self.assertAlmostEqual(losses.total.item(), -2.0 + 0.25 * 4.5 - 0.1 * entropy, 6)

    def test_surrogate_s_gradient_stops_where_the_clip_acts(self):
        for ratio, adv, is_stopped in ((1.5, 1.0, True), (1.5, -1.0, False), (0.5, 1.0, False), (0.5, -1.0, True)):
            with self.subTest(ratio=ratio, adv=adv):
                policy = linear_policy()
                ppo_loss(policy, batch([ratio], [adv]), SETTINGS).total.backward()
                # d logp / d log_std = -1 for action 0, so the gradient is adv * ratio where it flows.
                gradient = float(policy.flat.grad[LINEAR.log_std_slice])
                self.assertAlmostEqual(gradient, 0.0 if is_stopped else adv * ratio, 6)

    def test_absurd_old_log_probability_keeps_loss_and_gradient_finite(self):  # O-17
        for logp in (-1e4, 1e4):
            for adv in (1.0, -1.0):
                policy = linear_policy()
                samples = batch([1.0, 1.0], [adv, adv])
                samples.logp[0] = logp
                losses = ppo_loss(policy, samples, SETTINGS)
                losses.total.backward()
                self.assertTrue(all(bool(term.isfinite()) for term in losses))
                self.assertTrue(bool(policy.flat.grad.isfinite().all()))


class ValueErrorTest(unittest.TestCase):
    def test_clip_holds_the_value_near_its_old_one(self):  # O-64
        value, old_value, ret = torch.tensor([1.0]), torch.tensor([0.0]), torch.tensor([1.0])
        self.assertAlmostEqual(float(value_error(value, old_value, ret, 0.2)), 0.64, 6)
        self.assertEqual(float(value_error(value, old_value, ret, None)), 0.0)

    def test_larger_error_wins(self):
        zero = torch.zeros(3)
        value, ret = torch.tensor([1.0, 0.1, -1.0]), torch.tensor([-1.0, 1.0, 0.1])
        np.testing.assert_allclose(value_error(value, zero, ret, 0.2), [4.0, 0.81, 1.21], rtol=1e-6)

    def test_perfect_values_have_exactly_no_error(self):  # O-65
        values = torch.tensor([0.0, 1.0])
        error = value_error(values, values, values, 0.2)
        self.assertEqual(error.shape, (2,))
        losses = ppo_loss(linear_policy(), batch([1.0, 1.0], [1.0, 1.0], values=[0.0, 1.0]), SETTINGS)
        self.assertEqual((error.tolist(), float(losses.value_loss)), ([0.0, 0.0], 0.0))

    def test_policy_clip_and_value_clip_are_separate(self):  # O-64
        samples = batch([1.5], [1.0], values=[1.0], old_values=[0.0])
        for clip, value_clip, policy_loss, value_loss in ((0.2, None, -1.2, 0.0), (0.9, 0.2, -1.5, 0.64)):
            losses = ppo_loss(linear_policy(), samples, settings(clip_range=clip, value_clip_range=value_clip))
            self.assertAlmostEqual(float(losses.policy_loss), policy_loss, 6)
            self.assertAlmostEqual(float(losses.value_loss), value_loss, 6)


class GradientTest(unittest.TestCase):
    def test_gradient_equals_finite_differences(self):
        step = 1e-6
        for head in ("gaussian", "categorical"):
            network = NetworkSpec(3, head, 2, (4,), "tanh")
            generator = torch.Generator().manual_seed(1)
            flat = torch.from_numpy(random_parameters(network)).double()
            policy = ActorCritic(network, flat)
            normal = torch.randn(6, 12, generator=generator, dtype=torch.float64)
            act = normal[:, 3:5] if head == "gaussian" else (normal[:, 3] > 0).long()
            samples = Batch(normal[:, :3], act, normal[:, 5] * 0.3 - 2.0, normal[:, 6], normal[:, 7], normal[:, 8])
            for value_clip in (None, 0.3):
                with self.subTest(head, value_clip=value_clip):
                    options = settings(value_clip_range=value_clip, entropy_coef=0.05)
                    policy.flat.grad = None
                    ppo_loss(policy, samples, options).total.backward()
                    differences = torch.zeros_like(flat)
                    with torch.no_grad():
                        for i in range(len(flat)):
                            for sign in (1.0, -1.0):
                                policy.flat[i] += sign * step
                                differences[i] += sign * ppo_loss(policy, samples, options).total / (2 * step)
                                policy.flat[i] -= sign * step
                    np.testing.assert_allclose(policy.flat.grad, differences, rtol=1e-6, atol=1e-8)
                    self.assertGreater(float(differences.abs().min()), 0.0)


if __name__ == "__main__":
    unittest.main()
