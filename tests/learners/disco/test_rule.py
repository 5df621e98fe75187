"""Targets, losses and gradients of the rule against the reference, and the loss against values worked out by hand."""

import math
import unittest

import torch

from ddp_ppo.learners.disco import rule
from ddp_ppo.learners.disco.batch import TakenHeads
from ddp_ppo.learners.disco.meta_network import Targets
from tests.support.disco_golden import disco_config, needs_data, of_max, published_meta, rule_cases

torch.set_num_threads(1)


def targets_of(case, average=lambda tensor: None):
    return rule.make_targets(
        published_meta(), case.state, heads=case.heads, batch=case.batch, config=disco_config(), average=average
    )


def losses_of(case):
    """Losses from the stored targets."""
    targets = Targets(*(case[f"out/{name}"] for name in Targets._fields))
    next_logits = case.arrays["in/agent_out/logits"][1:]
    constants = {"next_logits": next_logits, "q_target": case["value/q_target"], "ended": case.batch.ended}
    return rule.losses(case.taken_heads(), targets, **constants)


@needs_data
class ReferenceTest(unittest.TestCase):
    """C32."""

    def test_targets_from_the_agent_s_outputs(self):
        for name, case in rule_cases():
            targets, values, state = targets_of(case)
            expected = case.state_of("state_out")
            with self.subTest(name):
                for field, found in targets._asdict().items():
                    self.assertLess(of_max(found, case[f"out/{field}"]), 1e-4)
                self.assertLess(of_max(values.q_target, case["value/q_target"]), 1e-4)
                for found, after in ((state.rnn, expected.rnn), (state.moments, expected.moments)):
                    for one, other in zip(found, after, strict=True):
                        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)

    def test_losses(self):
        for name, case in rule_cases():
            terms = losses_of(case)
            for field in ("pi", "y", "z", "aux"):
                with self.subTest(name, field=field):
                    torch.testing.assert_close(getattr(terms, field), case[f"loss/{field}"], atol=1e-5, rtol=0)
            with self.subTest(name, field="q"):
                self.assertLess(of_max(terms.q, case["loss/q"]), 2e-4)
                self.assertLess(of_max(rule.Q_COST * terms.q, case["loss/no_meta_per_step"]), 2e-4)
            with self.subTest(name, field="meta_per_step"):
                self.assertLess(of_max(sum(terms[:4]), case["loss/meta_per_step"]), 1e-5)
            with self.subTest(name, field="total"):
                total = rule.total_loss(terms, case.batch.mask).item()
                self.assertAlmostEqual(total / float(case["loss/total"]), 1.0, delta=1e-4)

    def test_gradients(self):
        for name, case in rule_cases():
            total = rule.total_loss(losses_of(case), case.batch.mask)
            gradients = dict(zip(case.raw, torch.autograd.grad(total, [*case.raw.values()]), strict=True))
            for head, gradient in gradients.items():
                if f"{case.case}/grad/{head}" in case.arrays:
                    with self.subTest(name, head=head):
                        limit = 3e-3 if head == "q" else 1e-5
                        self.assertLess(of_max(gradient, case[f"grad/{head}"]), limit)

    def test_learners_average_two_small_tensors(self):
        for name, case in rule_cases():
            seen = []
            _, values, _ = targets_of(case, lambda tensor: seen.append(tensor.clone()))  # noqa: B023 - called at once
            with self.subTest(name):
                self.assertEqual([tensor.numel() for tensor in seen], [4, 16])
                means = [values.adv.mean(), values.q_td.mean(), values.adv.square().mean(), values.q_td.square().mean()]
                torch.testing.assert_close(seen[0].flatten(), torch.stack(means))
                self.assertLess(of_max(seen[1], case["meta_rnn_x_avg"]), 1e-4)


class LossTest(unittest.TestCase):
    """One step, one environment, two actions."""

    def setUp(self):
        even = torch.zeros(1, 1, 2)
        self.agent = TakenHeads(even, torch.zeros(1, 1, 600), torch.zeros(1, 1, 600), torch.zeros(1, 1, 601), even)
        self.targets = Targets(even, torch.zeros(1, 1, 600), torch.zeros(1, 1, 600))

    def losses(self, next_logits=(0.0, 0.0), q_target=0.0, ended=False):
        return rule.losses(
            self.agent,
            self.targets,
            next_logits=torch.tensor(next_logits)[None, None],
            q_target=torch.tensor([[q_target]]),
            ended=torch.tensor([[ended]]),
        )

    def test_equal_predictions_cost_nothing(self):
        terms = self.losses()
        for field in ("pi", "y", "z", "aux"):
            self.assertAlmostEqual(float(getattr(terms, field)), 0.0, 6)

    def test_target_is_the_first_argument_of_the_divergence(self):
        self.targets = self.targets._replace(pi=torch.tensor([[[math.log(0.9), math.log(0.1)]]]))
        expected = 0.9 * math.log(0.9 / 0.5) + 0.1 * math.log(0.1 / 0.5)
        self.assertAlmostEqual(float(self.losses().pi), expected, 6)

    def test_auxiliary_policy_is_compared_with_the_next_observation_s(self):
        next_logits = (math.log(0.8), math.log(0.2))
        expected = 0.8 * math.log(0.8 / 0.5) + 0.2 * math.log(0.2 / 0.5)
        self.assertAlmostEqual(float(self.losses(next_logits).aux), expected, 6)
        self.assertEqual(float(self.losses(next_logits, ended=True).aux), 0.0)

    def test_cross_entropy_of_a_uniform_q(self):
        self.assertAlmostEqual(float(self.losses(q_target=12.3).q), math.log(601), 5)

    def test_total_is_the_mean_over_the_mask(self):
        terms = rule.LossTerms(
            *(torch.tensor([[1.0, 10.0], [3.0, 20.0]]) * factor for factor in (1.0, 2.0, 3.0, 4.0, 5.0))
        )
        mask = torch.tensor([[True, False], [True, False]])
        self.assertAlmostEqual(float(rule.total_loss(terms, mask)), (1.0 + 3.0) / 2 * (1 + 2 + 3 + 4 + 0.2 * 5), 5)
        self.assertEqual(float(rule.total_loss(terms, torch.zeros_like(mask))), 0.0)


if __name__ == "__main__":
    unittest.main()
