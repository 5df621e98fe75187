"""The PPO loss against values worked out by hand and against finite differences, and the gradient step by autograd."""

import dataclasses
import math
import unittest

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ddp_ppo.learners.adam_state import AdamState
from ddp_ppo.learners.ppo.loss import Batch, ppo_loss, value_error
from ddp_ppo.learners.ppo.loss_settings import LossSettings
from ddp_ppo.learners.ppo.updates.torch_update import TorchUpdate
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.policies.torch_policy import ActorCritic
from ddp_ppo.sampling.finite import NonFiniteError
from tests.support.fixtures import linear_critic, random_parameters

torch.set_num_threads(1)  # threads that wait for each other make tiny products 10 times slower on a busy machine

SETTINGS = LossSettings(
    clip_range=0.2, value_clip_range=None, entropy_coef=0.0, value_coef=0.5, max_grad_norm=None, adam_eps=1e-8
)
UNIT_LOGP = -0.5 * math.log(2 * math.pi)  # of action 0 under the unit Gaussian
LINEAR = NetworkSpec(1, "gaussian", 1, (), "tanh")  # with linear_critic: mean 0, std 1, V(s) = s[0]


def settings(**changes):
    return dataclasses.replace(SETTINGS, **changes)


def linear_policy():
    return ActorCritic(LINEAR, torch.from_numpy(linear_critic(LINEAR)))


def batch(ratios, advantages, values=None, returns=None, old_values=None):
    """Action 0 in every sample, sampled by a policy that makes each probability ratio what it should be."""
    num_samples = len(ratios)
    values = values or [0.0] * num_samples
    return Batch(
        obs=torch.tensor(values)[:, None],
        act=torch.zeros(num_samples, 1),
        logp=UNIT_LOGP - torch.tensor(ratios).log(),
        adv=torch.tensor(advantages),
        ret=torch.tensor(returns or values),
        value=torch.tensor(old_values or values),
    )


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


class Looks(TorchDispatchMode):
    """Notes the operators that hand a value, or a shape that depends on one, to the CPU: a GPU is waited for there."""

    def __init__(self) -> None:
        super().__init__()
        self.noted = []

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        name = operator.overloadpacket.__name__
        if name in ("_local_scalar_dense", "nonzero", "masked_select", "equal"):
            self.noted.append(name)
        return operator(*args, **(kwargs or {}))


class UpdateTest(unittest.TestCase):
    def setUp(self):
        self.policy = linear_policy()
        zeros = torch.zeros(LINEAR.num_parameters)
        self.optimizer = AdamState(zeros.clone(), zeros.clone(), torch.tensor(0.0))
        self.gradients = []

    def update(self, **changes):
        return TorchUpdate(self.policy, self.optimizer, settings(**changes), lambda g: self.gradients.append(g.clone()))

    def test_first_adam_step_moves_each_parameter_by_the_learning_rate(self):
        before = self.policy.flat.detach().clone()
        update = self.update()
        update.load(batch([1.0], [2.0], values=[3.0], returns=[0.0]))
        update.epoch(np.arange(1), 1, 0.01)
        # Gradients by hand: actor 0 (action = mean), critic weight 3 * 3 and bias 3, log_std adv.
        expected = dict.fromkeys(range(LINEAR.num_parameters), 0.0)
        critic = LINEAR.trunk("critic")[0].start
        expected |= {critic: 9.0, critic + 1: 3.0, LINEAR.log_std_slice.start: 2.0}
        np.testing.assert_allclose(self.gradients[0], list(expected.values()), atol=1e-6)
        moved = before - self.policy.flat.detach()
        np.testing.assert_allclose(moved, 0.01 * self.gradients[0].sign(), atol=1e-6)
        self.assertEqual(float(self.optimizer.step), 1.0)

    def test_moments_are_the_learner_s_own_and_go_on_over_epochs(self):
        update = self.update()
        update.load(batch([1.0] * 4, [1.0] * 4, values=[1.0] * 4, returns=[0.0] * 4))
        update.epoch(np.arange(4), 2, 1e-12)  # all but standing still: equal gradients
        update.epoch(np.arange(4), 2, 1e-12)
        self.assertEqual(float(self.optimizer.step), 4.0)
        np.testing.assert_allclose(self.optimizer.exp_avg, self.gradients[0] * (1 - 0.9**4), rtol=1e-5)
        np.testing.assert_allclose(self.optimizer.exp_avg_sq, self.gradients[0] ** 2 * (1 - 0.999**4), rtol=1e-4)

    def test_gradient_is_clipped_to_its_norm_and_reported_before(self):
        update = self.update(max_grad_norm=0.5)
        update.load(batch([1.0], [2.0], values=[3.0], returns=[0.0]))
        stats = update.epoch(np.arange(1), 1, 1e-12)
        norm = math.sqrt(9**2 + 3**2 + 2**2)
        self.assertAlmostEqual(stats.grad_norm, norm, 4)
        np.testing.assert_allclose(self.optimizer.exp_avg / 0.1, self.gradients[0] * 0.5 / norm, rtol=1e-5, atol=1e-7)

    def test_small_gradient_is_not_clipped(self):
        update = self.update(max_grad_norm=100.0)
        update.load(batch([1.0], [2.0], values=[3.0], returns=[0.0]))
        update.epoch(np.arange(1), 1, 1e-12)
        np.testing.assert_allclose(self.optimizer.exp_avg / 0.1, self.gradients[0], rtol=1e-5)

    def test_what_is_averaged_is_what_the_step_uses(self):
        update = TorchUpdate(self.policy, self.optimizer, SETTINGS, lambda gradient: gradient.fill_(-1.0))
        before = self.policy.flat.detach().clone()
        update.load(batch([1.0], [2.0]))
        update.epoch(np.arange(1), 1, 0.01)
        np.testing.assert_allclose(self.policy.flat.detach() - before, 0.01, rtol=1e-4)

    def test_step_looks_at_no_value_and_keeps_its_place_in_memory(self):
        looks, places = Looks(), set()

        def watched(step):
            def run(index):
                with looks:
                    step(index)

            return run

        update = TorchUpdate(self.policy, self.optimizer, settings(max_grad_norm=0.5), lambda gradient: None, watched)
        for ret in (0.0, 1.0):
            update.load(batch([1.5] * 8, [1.0] * 8, values=[2.0] * 8, returns=[ret] * 8))
            update.epoch(np.arange(8), 3, 0.01)
            places.add((self.policy.flat.data_ptr(), *(tensor.data_ptr() for tensor in update._batch)))
        self.assertEqual((looks.noted, len(places)), ([], 1))
        with looks:
            self.assertTrue(torch.ones(3)[0] == 1.0)
        self.assertEqual(looks.noted, ["_local_scalar_dense"])

    def test_gradient_that_is_not_finite_moves_nothing_and_is_told_at_the_end(self):
        update = self.update()
        before = self.policy.flat.detach().clone()
        update.load(batch([1.0, 1.0], [1.0, math.nan], values=[1.0, 1.0], returns=[1.0, 1.0]))
        with self.assertRaisesRegex(NonFiniteError, "policy_loss of an epoch is nan"):
            update.epoch(np.arange(2), 2, 0.01)
        self.assertTrue(torch.equal(self.policy.flat.detach(), before))

    def test_statistics_are_weighted_by_samples(self):  # O-66
        update = self.update()
        update.load(batch([1.5] * 64 + [1.0] * 36, [1.0] * 100, values=[1.0] * 64 + [2.0] * 36, returns=[0.0] * 100))
        stats = update.epoch(np.arange(100), 64, 1e-12)
        self.assertAlmostEqual(stats.clip_fraction, 0.64, 6)
        self.assertAlmostEqual(stats.value_loss, 0.64 * 1 + 0.36 * 4, 5)
        self.assertAlmostEqual(stats.policy_loss, -(0.64 * 1.2 + 0.36), 5)

    def test_statistics_are_means_over_all_minibatches(self):  # O-66
        update = self.update()
        update.load(batch([1.5] * 4 + [1.0] * 12, [1.0] * 16))
        self.assertAlmostEqual(update.epoch(np.arange(16), 4, 1e-12).clip_fraction, 0.25, 6)


if __name__ == "__main__":
    unittest.main()
