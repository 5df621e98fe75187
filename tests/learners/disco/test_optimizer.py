"""The optimizer against the reference, and its clip against values worked out by hand."""

import math
import unittest

import torch

from ddp_ppo.learners.adam_state import AdamState
from ddp_ppo.learners.disco.optimizer import clipped_adam, fresh_optimizer
from tests.support.disco_golden import golden, needs_data


class ClippedAdamTest(unittest.TestCase):
    def test_first_step_is_the_learning_rate_against_the_sign(self):
        parameters = torch.zeros(3)
        clipped_adam(parameters, torch.tensor([5.0, -1e-3, 0.0]), fresh_optimizer(parameters), 0.1)
        torch.testing.assert_close(parameters, torch.tensor([-0.1, 0.1, 0.0]), atol=1e-5, rtol=0)

    def test_gradient_after_quiet_ones_moves_no_further_than_the_learning_rate(self):
        parameters = torch.zeros(1)
        state = AdamState(torch.zeros(1), torch.zeros(1), torch.tensor(1000.0))
        clipped_adam(parameters, torch.tensor([1.0]), state, 0.1)
        # Without the clip 0.1 g / sqrt(0.001 g^2) with its corrections: 0.1 / sqrt(0.001 / (1 - 0.999^1001)) = 2.5.
        ratio = 0.1 / math.sqrt(0.001 / (1 - 0.999**1001))
        self.assertGreater(ratio, 2.0)
        self.assertAlmostEqual(float(parameters), -0.1, 6)

    @needs_data
    def test_reference(self):  # C32
        arrays = golden("optim")
        parameters = arrays["params_0"].clone()
        state = fresh_optimizer(parameters)
        for i, gradient in enumerate(arrays["grads"], 1):
            before = parameters.clone()
            clipped_adam(parameters, gradient, state, float(arrays["lr"]))
            with self.subTest(step=i):
                torch.testing.assert_close(parameters, arrays[f"params_{i}"], atol=1e-7, rtol=1e-5)
                torch.testing.assert_close(parameters - before, arrays[f"update_{i}"], atol=3e-7, rtol=1e-5)
                torch.testing.assert_close(state.exp_avg, arrays[f"mu_{i}"], atol=0, rtol=1e-5)
                torch.testing.assert_close(state.exp_avg_sq, arrays[f"nu_{i}"], atol=0, rtol=1e-5)

    @needs_data
    def test_reference_where_the_clip_acts(self):  # C32
        arrays = golden("optim")
        parameters = arrays["params_0"].clone()
        late = arrays["late/mu_0"].clone(), arrays["late/nu_0"].clone(), arrays["late/count"].float()
        state = AdamState(*late)
        for i, gradient in enumerate(arrays["grads"][:2], 1):
            before = parameters.clone()
            clipped_adam(parameters, gradient, state, float(arrays["lr"]))
            with self.subTest(step=i):
                torch.testing.assert_close(parameters, arrays[f"late/params_{i}"], atol=1e-7, rtol=1e-5)
                ratio = (before - parameters) / float(arrays["lr"])
                unclipped = arrays[f"late/unclipped_{i}"]
                torch.testing.assert_close(ratio, unclipped.clamp(-1.0, 1.0), atol=3e-5, rtol=0)
                self.assertGreater(float(unclipped.abs().max()), 1.0)


if __name__ == "__main__":
    unittest.main()
