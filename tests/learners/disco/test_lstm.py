"""The LSTM step against values worked out by hand and against the reference."""

import math
import unittest

import torch

from ddp_ppo.learners.disco.lstm import lstm_step
from tests.support.disco_golden import golden, needs_data, of_max


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


if __name__ == "__main__":
    unittest.main()
