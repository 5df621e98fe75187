"""The gradient step by autograd, which every faster one must equal."""

import math
import unittest

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ddp_ppo.learners.adam_state import AdamState
from ddp_ppo.learners.ppo.updates.torch_update import TorchUpdate
from ddp_ppo.sampling.finite import NonFiniteError
from tests.support.losses import LINEAR, SETTINGS, batch, linear_policy, settings

torch.set_num_threads(1)  # threads that wait for each other make tiny products 10 times slower on a busy machine


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
