"""The meta-network step by step against the reference, and properties that hold with any weights."""

import math
import unittest

import torch

from ddp_ppo.learners.disco.batch import BothHeads, Heads
from ddp_ppo.learners.disco.meta_network import lstm_step
from ddp_ppo.learners.disco.values import estimate, fresh_moments, normalize, updated
from tests.support.disco_golden import (
    CPU,
    golden,
    needs_data,
    of_max,
    published_meta,
    random_batch,
    random_meta,
    rule_cases,
)

torch.set_num_threads(1)


def random_heads(num_rows, num_envs, num_actions, seed):
    """Outputs of an agent."""
    generator = torch.Generator().manual_seed(seed)
    shapes = (num_actions,), (600,), (num_actions, 600), (num_actions, 601)
    return Heads(*(torch.randn(num_rows, num_envs, *shape, generator=generator) for shape in shapes))


def forward(meta, heads, batch, hidden):
    """Targets and the meta-RNN's input."""
    values = estimate(heads, batch, gamma=0.99, retrace_lambda=0.9)
    moments = updated(fresh_moments(2, CPU), torch.zeros(2), torch.ones(2))
    return meta(hidden, heads, batch=batch, values=values, normalized=normalize(values, moments))


def sigmoid(x):
    """Of a number."""
    return 1.0 / (1.0 + math.exp(-x))


class LstmStepTest(unittest.TestCase):
    def test_gates_come_as_input_candidate_forget_output(self):
        hidden, cell = lstm_step(torch.tensor([0.3, -0.7, 0.2, 1.1]), torch.tensor([0.5]))
        expected = sigmoid(0.2 + 1.0) * 0.5 + sigmoid(0.3) * math.tanh(-0.7)
        self.assertAlmostEqual(float(cell), expected, 6)
        self.assertAlmostEqual(float(hidden), sigmoid(1.1) * math.tanh(expected), 6)

    @needs_data
    def test_reference(self):  # C32
        unit = {key.removeprefix("lstm/"): array for key, array in golden("units").items()}
        gates = torch.cat([unit["x"], unit["h0"]], -1) @ unit["w"] + unit["b"]
        hidden, cell = lstm_step(gates, unit["c0"])
        self.assertLess(of_max(hidden, unit["h1"]), 1e-6)
        self.assertLess(of_max(cell, unit["c1"]), 1e-6)


@needs_data
class ReferenceTest(unittest.TestCase):
    """C32: each step from the stored values."""

    @classmethod
    def setUpClass(cls):
        cls.meta = published_meta()
        cls.cases = [
            (
                name,
                case,
                cls.meta.features(case.heads, case.batch, values=case.values(), normalized=case.normalized()),
            )
            for name, case in rule_cases()
        ]

    def assert_close(self, found, case, name):
        self.assertLess(of_max(found, case[name]), 1e-5)

    def test_features_of_both_networks(self):
        for name, case, features in self.cases:
            with self.subTest(name):
                self.assert_close(features.x[0], case, "x_base")
                self.assert_close(features.x[1], case, "x_meta_rnn_base")
                self.assert_close(features.policy_emb[0], case, "policy_emb")
                self.assert_close(features.policy_emb[1], case, "policy_emb_meta_rnn")

    def test_backward_lstm(self):
        for name, case, features in self.cases:
            with self.subTest(name):
                self.assert_close(self.meta.trajectory(features.x[0], case.batch.ended), case, "traj_lstm_out")
        units = golden("units")
        self.assertLess(of_max(self.meta.trajectory(units["rev/x"], units["rev/reset"].bool()), units["rev/out"]), 1e-5)

    def test_gate(self):
        for name, case, _ in self.cases:
            with self.subTest(name):
                self.assert_close(self.meta.gated(case["traj_lstm_out"], case.state.rnn.hidden), case, "gated")

    def test_targets(self):
        for name, case, features in self.cases:
            values = {"values": case.values(), "normalized": case.normalized()}
            targets, rnn_input = self.meta(case.state.rnn.hidden, case.heads, batch=case.batch, **values)
            emb = self.meta.input_emb(case["gated"])
            with self.subTest(name):
                for field, found in targets._asdict().items():
                    self.assert_close(found, case, f"out/{field}")
                self.assert_close(emb, case, "meta_input_emb")
                self.assert_close(rnn_input, case, "meta_rnn_x_avg")
                self.assert_close(self.meta.rnn_input(features.x[1], emb, targets.y), case, "meta_rnn_x_avg")

    def test_meta_rnn(self):
        for name, case, _ in self.cases:
            with self.subTest(name):
                state = self.meta.advance(case.state.rnn, case["meta_rnn_x_avg"])
                self.assert_close(state.hidden, case, "state_out/hidden")
                self.assert_close(state.cell, case, "state_out/cell")


class AnyWeightsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.meta = random_meta()
        cls.hidden = torch.randn(128, generator=torch.Generator().manual_seed(1))

    def test_names_of_actions_do_not_matter(self):
        batch = random_batch(5, 3, 4)
        heads = BothHeads(random_heads(6, 3, 4, 1), random_heads(6, 3, 4, 2))
        order = torch.tensor([2, 0, 3, 1])  # action i becomes order[i]
        index = order.argsort()

        def renamed(heads):
            return Heads(heads.logits[..., index], heads.y, heads.z[:, :, index], heads.q[:, :, index])

        other = batch._replace(act=order[batch.act], logits=batch.logits[..., index])
        targets, rnn_input = forward(self.meta, heads, batch, self.hidden)
        again, rnn_again = forward(self.meta, BothHeads(*map(renamed, heads)), other, self.hidden)
        torch.testing.assert_close(again.pi, targets.pi[..., index], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(again.y, targets.y, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(again.z, targets.z, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(rnn_again, rnn_input, atol=1e-4, rtol=1e-4)

    def test_any_number_of_actions(self):
        for num_actions in (1, 2, 9):
            heads = BothHeads(*(random_heads(4, 2, num_actions, seed) for seed in (1, 2)))
            targets, rnn_input = forward(self.meta, heads, random_batch(3, 2, num_actions), self.hidden)
            self.assertEqual([*targets.pi.shape], [3, 2, num_actions])
            self.assertEqual([*targets.z.shape, *targets.y.shape], [3, 2, 600, 3, 2, 600])
            self.assertEqual([*rnn_input.shape], [16])

    def test_later_episodes_are_unknown(self):
        x = torch.randn(6, 1, 27, generator=torch.Generator().manual_seed(2))
        ended = torch.zeros(6, 1, dtype=torch.bool)
        ended[2] = True
        other = x.clone()
        other[3:] += 1.0
        found, again = self.meta.trajectory(x, ended), self.meta.trajectory(other, ended)
        torch.testing.assert_close(found[:3], again[:3], rtol=0, atol=0)
        self.assertGreater(float((found[3:] - again[3:]).abs().min()), 0.0)
        self.assertGreater(float((found[:3] - self.meta.trajectory(x, torch.zeros_like(ended))[:3]).abs().max()), 1e-3)

    def test_earlier_steps_are_unknown(self):
        x = torch.randn(6, 1, 27, generator=torch.Generator().manual_seed(3))
        ended = torch.zeros(6, 1, dtype=torch.bool)
        other = x.clone()
        other[:2] += 1.0
        torch.testing.assert_close(
            self.meta.trajectory(x, ended)[2:], self.meta.trajectory(other, ended)[2:], rtol=0, atol=0
        )

    def test_birth_is_zero(self):
        state = self.meta.birth()
        self.assertEqual([*state.hidden.shape, *state.cell.shape], [128, 128])
        self.assertFalse(bool(state.hidden.any() or state.cell.any()))


if __name__ == "__main__":
    unittest.main()
