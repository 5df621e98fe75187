"""The forward pass in NumPy against torch's own layers."""

import itertools
import unittest

import numpy as np
import torch
from torch import nn

from ddp_ppo.policies.network import NetworkSpec, to_named
from ddp_ppo.policies.numpy_mlp import NUMPY_ACTIVATIONS, NumpyMlp
from tests.support.fixtures import random_parameters

ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU, "elu": nn.ELU}
SCALE = np.array([0.5, 2.0, -1.0, 3.0], np.float32)


def reference(network, flat):
    """The actor as torch has it."""
    sizes = [network.obs_size, *network.hidden_sizes, network.action_size]
    layers = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), ACTIVATIONS[network.activation]()]
    model = nn.Sequential(*layers[:-1])
    named = {name: torch.from_numpy(array) for name, array in to_named(network, flat).items()}
    model.load_state_dict({name.removeprefix("actor."): t for name, t in named.items() if name.startswith("actor.")})
    return model


class MlpTest(unittest.TestCase):
    def test_it_equals_torch_s_layers_with_and_without_hidden_ones(self):
        obs = np.random.default_rng(0).standard_normal((7, 4)).astype(np.float32)
        for activation in ACTIVATIONS:
            for hidden_sizes in ((), (8,), (16, 5, 3)):
                network = NetworkSpec(4, "gaussian", 2, hidden_sizes, activation)
                flat = random_parameters(network)
                mlp = NumpyMlp(network.trunk("actor"), activation, 7)
                mlp.load(flat, SCALE)
                out = np.empty((7, 2), np.float32)
                for rows in (obs, -obs):  # the memory is used again
                    mlp.input[:, :-1] = rows
                    mlp.forward(out)
                    with self.subTest(activation, hidden_sizes=hidden_sizes), torch.no_grad():
                        expected = reference(network, flat)(torch.from_numpy(rows * SCALE))
                        np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)

    def test_it_keeps_a_copy_of_its_parameters(self):
        network = NetworkSpec(4, "gaussian", 2, (8,), "tanh")
        flat, out, again = random_parameters(network), np.empty((1, 2), np.float32), np.empty((1, 2), np.float32)
        mlp = NumpyMlp(network.trunk("actor"), "tanh", 1)
        mlp.load(flat, SCALE)
        mlp.forward(out)
        flat[:] = 0.0
        mlp.forward(again)
        np.testing.assert_array_equal(out, again)

    def test_each_activation_turns_its_value_before_one_into_exactly_one(self):
        for name, activation in NUMPY_ACTIVATIONS.items():
            out = np.empty(1, np.float32)
            activation.forward(np.float32([activation.before_one]), out)
            self.assertEqual(out[0], 1.0, name)


if __name__ == "__main__":
    unittest.main()
