"""What every kind of action space owes the rest: NumPy and torch agree, gradients are those of autograd."""

import unittest

import numpy as np
import torch

from ddp_ppo.actions.box import BoxAction
from ddp_ppo.actions.discrete import DiscreteAction

KINDS = {
    "box": BoxAction((-1.0, -np.inf, 0.5), (1.0, np.inf, np.inf)),
    "discrete": DiscreteAction(4, start=2),
}
N, T, K = 64, 5, 3


class KindTest(unittest.TestCase):
    def setUp(self):
        self.generator = np.random.default_rng(0)

    def batch(self, action):
        """Outputs, log_std and samples of a head, for N rows."""
        head = action.head
        output = self.generator.normal(size=(N, head.num_outputs)).astype(np.float32)
        log_std = self.generator.normal(size=head.num_log_std).astype(np.float32) * 0.3
        sampler, act = head.sampler(1, N), np.empty((N, *head.act_shape), head.act_dtype)
        sampler.begin(self.generator, log_std)
        sampler.sample(0, output, act)
        return output, log_std, act

    def each(self):
        for name, action in KINDS.items():
            with self.subTest(name):
                yield action

    def test_numpy_and_torch_agree_on_log_probability_and_entropy(self):
        for action in self.each():
            output, log_std, act = self.batch(action)
            tensors = [torch.from_numpy(array) for array in (act, output, log_std)]
            logp, entropy = action.head.evaluate(act, output, log_std)
            torch_logp, torch_entropy = action.head.evaluate(*tensors)
            np.testing.assert_allclose(logp, torch_logp.numpy(), rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(entropy, torch_entropy.numpy(), rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(action.head.logp(act, output, log_std), logp)
            np.testing.assert_array_equal(action.head.logp(*tensors), torch_logp)

    def test_the_gradient_is_that_of_autograd(self):
        for action in self.each():
            output, log_std, act = self.batch(action)
            old_logp, d_logp = self.generator.normal(size=(2, N)).astype(np.float32)
            tensors = [torch.from_numpy(array.copy()).requires_grad_() for array in (output, log_std)]
            logp, entropy = action.head.evaluate(torch.from_numpy(act), *tensors)
            ((torch.from_numpy(d_logp) * logp).sum() - 0.3 * entropy.mean()).backward()
            d_log_std, out, entropies = np.zeros_like(log_std), np.empty(N, np.float32), np.empty(N, np.float32)
            gradient = action.head.gradient(log_std, d_log_std, entropy_coef=0.3)
            gradient.log_ratio(act, output.copy(), old_logp, out=out, entropy=entropies)
            np.testing.assert_allclose(out, logp.detach().numpy() - old_logp, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(entropies.mean(), entropy.mean().item(), rtol=1e-5)
            np.testing.assert_allclose(gradient.backward(d_logp.copy()), tensors[0].grad, rtol=1e-4, atol=1e-5)
            if len(log_std):
                np.testing.assert_allclose(d_log_std, tensors[1].grad, rtol=1e-4, atol=1e-5)

    def test_samples_have_the_declared_shape_and_repeat_with_their_generator(self):
        for action in self.each():
            output = self.generator.normal(size=(K, action.head.num_outputs)).astype(np.float32)
            log_std = np.zeros(action.head.num_log_std, np.float32)
            drawn = []
            for _ in range(2):
                sampler = action.head.sampler(T, K)
                sampler.begin(np.random.default_rng(5), log_std)
                act = np.empty((T, K, *action.head.act_shape), action.head.act_dtype)
                for step in range(T):
                    sampler.sample(step, output, act[step])
                drawn.append(act)
            np.testing.assert_array_equal(*drawn)
            self.assertGreater(len(np.unique(drawn[0])), 1)

    def test_what_the_environment_gets_is_the_same_for_fixed_rows(self):
        for action in self.each():
            _, _, act = self.batch(action)
            np.testing.assert_array_equal(action.fixed_rows(N)(act), action.to_env(act))

    def test_own_values_come_back(self):
        for action in self.each():
            actions = action.random(self.generator, T, K)
            own = action.to_own(actions)
            np.testing.assert_array_equal(action.from_own(own), actions)
            self.assertFalse(np.shares_memory(own, actions))
            flat = action.to_own(action.random(self.generator, T))
            np.testing.assert_array_equal(action.read(flat)[0], flat)

    def test_tables_have_a_row_for_each_column(self):
        for action in self.each():
            self.assertEqual(len(action.column_names()), len(action.document()))
            self.assertEqual([node[2] for node in action.onnx_nodes()][-1], "action")
            used = {name for _, inputs, _, _ in action.onnx_nodes() for name in inputs}
            self.assertLessEqual(set(action.constants()), used)

    def test_equal_actions_do_not_disagree(self):
        for action in self.each():
            output, _, act = self.batch(action)
            self.assertFalse(action.disagreement(act, act, output).any())

    def test_the_neutral_action_is_one_of_the_space(self):
        for action in self.each():
            np.testing.assert_array_equal(action.to_env(action.neutral()), action.neutral())
            self.assertEqual(action.neutral().shape, action.head.act_shape)


if __name__ == "__main__":
    unittest.main()
