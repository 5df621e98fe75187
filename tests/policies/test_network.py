"""The flat parameter vector: its layout, initialisation, names, and the forward pass over it."""

import itertools
import math
import unittest

import numpy as np
import torch
from torch import nn

from ddp_ppo.policies.network import NetworkSpec, from_named, hold_log_std, initial_parameters, to_named
from ddp_ppo.policies.numpy_mlp import NumpyMlp
from ddp_ppo.protocols import EnvSpec
from tests.support.fixtures import linear_critic, random_parameters

ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU, "elu": nn.ELU}


def sequential(network, flat, trunk):
    """The trunk as an nn.Sequential that loads the named arrays by name."""
    layers = []
    sizes = [network.obs_size, *network.hidden_sizes, network.action_size if trunk == "actor" else 1]
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), ACTIVATIONS[network.activation]()]
    module = nn.Sequential(*layers[:-1])
    named = {name: torch.from_numpy(array) for name, array in to_named(network, flat).items()}
    prefix = f"{trunk}."
    module.load_state_dict({name.removeprefix(prefix): t for name, t in named.items() if name.startswith(prefix)})
    return module


class LayoutTest(unittest.TestCase):
    def test_number_of_parameters(self):
        gaussian = NetworkSpec(17, "gaussian", 6, (64, 32), "tanh")
        trunk = 17 * 64 + 64 + 64 * 32 + 32
        self.assertEqual(gaussian.num_parameters, 2 * trunk + (32 * 6 + 6) + (32 + 1) + 6)
        categorical = NetworkSpec(4, "categorical", 2, (), "tanh")
        self.assertEqual(categorical.num_parameters, (4 * 2 + 2) + (4 + 1))

    def test_every_parameter_belongs_to_exactly_one_part(self):
        network = NetworkSpec(5, "gaussian", 3, (4, 7), "tanh")
        flat = np.zeros(network.num_parameters, np.float32)
        for layer in network.layers:
            layer.view(flat)[:] += 1
        flat[network.log_std_slice] += 1
        np.testing.assert_array_equal(flat, 1)

    def test_views_work_on_arrays_and_tensors(self):
        network = NetworkSpec(1, "categorical", 2, (), "tanh")
        flat = linear_critic(network)
        layer = network.trunk("critic")[0]
        tensor = torch.zeros(len(flat))
        layer.view(tensor)[1] = 5.0
        flat[:] = 0.0
        layer.view(flat)[1] = 5.0
        np.testing.assert_array_equal(tensor.numpy(), flat)
        self.assertEqual(float(tensor.sum()), 5.0)

    def test_hidden_blocks_of_actor_and_critic_are_equally_far_apart(self):
        network = NetworkSpec(5, "gaussian", 3, (4, 7), "tanh")
        layers = {layer.name: layer for layer in network.layers}
        self.assertEqual(sorted(layers), sorted(f"{trunk}.{i}" for trunk in ("actor", "critic") for i in (0, 2, 4)))
        apart = {layers[f"critic.{i}"].start - layers[f"actor.{i}"].start for i in (0, 2)}
        self.assertEqual(apart, {network.part("critic").start})

    def test_actor_with_log_std_and_critic_are_the_two_parts(self):
        network = NetworkSpec(5, "gaussian", 3, (4,), "tanh")
        actor = (5 + 1) * 4 + (4 + 1) * 3 + 3
        self.assertEqual(network.part("actor"), slice(0, actor))
        self.assertEqual(network.log_std_slice, slice(actor - 3, actor))
        self.assertEqual(network.part("critic"), slice(actor, actor + (5 + 1) * 4 + (4 + 1)))

    def test_trunks_run_from_observation_to_output(self):
        network = NetworkSpec(5, "gaussian", 3, (4, 7), "tanh")
        sizes = {name: [(x.inputs, x.outputs) for x in network.trunk(name)] for name in ("actor", "critic")}
        self.assertEqual(sizes, {"actor": [(5, 4), (4, 7), (7, 3)], "critic": [(5, 4), (4, 7), (7, 1)]})

    def test_head_follows_the_action_space(self):
        box = EnvSpec("A", 3, "box", 2, (-1.0, -1.0), (1.0, 1.0))
        self.assertEqual(NetworkSpec.for_env(box, (8,), "elu"), NetworkSpec(3, "gaussian", 2, (8,), "elu"))
        discrete = EnvSpec("B", 3, "discrete", 4)
        self.assertEqual(NetworkSpec.for_env(discrete, (), "tanh"), NetworkSpec(3, "categorical", 4, (), "tanh"))


class InitialisationTest(unittest.TestCase):
    def setUp(self):
        self.network = NetworkSpec(6, "gaussian", 3, (16, 8), "tanh")
        self.flat = initial_parameters(self.network, np.random.default_rng(0), -0.5)
        self.named = to_named(self.network, self.flat)

    def test_weights_are_orthogonal_with_the_gain_of_their_layer(self):
        gains = {"actor.4": 0.01, "critic.4": 1.0}
        for layer in self.network.layers:
            with self.subTest(layer.name):
                weight = self.named[f"{layer.name}.weight"].astype(np.float64)
                gram = weight @ weight.T if layer.outputs <= layer.inputs else weight.T @ weight
                expected = gains.get(layer.name, math.sqrt(2)) ** 2 * np.eye(len(gram))
                np.testing.assert_allclose(gram, expected, atol=1e-6 * expected.max())

    def test_biases_are_zero_and_log_std_is_the_setting(self):
        for name, array in self.named.items():
            if name.endswith("bias"):
                np.testing.assert_array_equal(array, 0.0)
        np.testing.assert_array_equal(self.named["log_std"], -0.5)

    def test_actor_and_critic_start_different(self):
        self.assertFalse(np.allclose(self.named["actor.0.weight"], self.named["critic.0.weight"]))

    def test_same_generator_gives_the_same_parameters_and_another_one_others(self):
        again = initial_parameters(self.network, np.random.default_rng(0), -0.5)
        other = initial_parameters(self.network, np.random.default_rng(1), -0.5)
        np.testing.assert_array_equal(self.flat, again)
        self.assertFalse(np.allclose(self.flat, other))

    def test_no_orientation_is_preferred(self):
        generator = np.random.default_rng(0)
        firsts = [initial_parameters(self.network, generator, 0.0)[0] for _ in range(200)]
        self.assertLess(abs(np.sign(firsts).mean()), 5 / np.sqrt(200))  # 5 sigma

    def test_categorical_head_has_no_log_std(self):
        network = NetworkSpec(6, "categorical", 3, (8,), "tanh")
        self.assertNotIn("log_std", to_named(network, initial_parameters(network, np.random.default_rng(0), -0.5)))


class LogStdTest(unittest.TestCase):
    def setUp(self):
        self.network = NetworkSpec(2, "gaussian", 3, (4,), "tanh")
        self.flat = random_parameters(self.network)

    def hold(self, *log_std):
        self.flat[self.network.log_std_slice] = log_std
        return hold_log_std(self.network, self.flat), self.flat[self.network.log_std_slice].tolist()

    def test_underflow_and_explosion_are_held_and_reported(self):  # O-15, O-16
        self.assertEqual(self.hold(-104, 0, 90), (True, [-5, 0, 2]))

    def test_values_inside_the_range_stay(self):
        self.assertEqual(self.hold(-5, 0.5, 2), (False, [-5, 0.5, 2]))

    def test_nothing_else_changes(self):
        before = self.flat[: self.network.log_std_slice.start].copy()
        self.hold(-104, -104, -104)
        np.testing.assert_array_equal(self.flat[: self.network.log_std_slice.start], before)

    def test_tensors_are_held_too(self):
        tensor = torch.full((self.network.num_parameters,), -7.0)
        self.assertTrue(hold_log_std(self.network, tensor))
        self.assertEqual(tensor[self.network.log_std_slice].tolist(), [-5, -5, -5])
        self.assertEqual(float(tensor[0]), -7.0)

    def test_categorical_head_has_nothing_to_hold(self):
        network = NetworkSpec(2, "categorical", 3, (4,), "tanh")
        flat = np.full(network.num_parameters, 90.0, np.float32)
        self.assertFalse(hold_log_std(network, flat))
        np.testing.assert_array_equal(flat, 90.0)


class NamesTest(unittest.TestCase):
    def setUp(self):
        self.network = NetworkSpec(3, "gaussian", 2, (4,), "tanh")
        self.flat = random_parameters(self.network)
        self.named = to_named(self.network, self.flat)

    def test_names_and_shapes_are_torch_s(self):
        shapes = {name: array.shape for name, array in self.named.items()}
        expected = {"log_std": (2,)}
        for trunk, outputs in (("actor", 2), ("critic", 1)):
            expected |= {f"{trunk}.0.weight": (4, 3), f"{trunk}.0.bias": (4,)}
            expected |= {f"{trunk}.2.weight": (outputs, 4), f"{trunk}.2.bias": (outputs,)}
        self.assertEqual(shapes, expected)

    def test_names_and_flat_vector_hold_the_same_bits(self):
        np.testing.assert_array_equal(from_named(self.network, self.named), self.flat)

    def test_named_arrays_are_copies(self):
        before = self.flat.copy()
        for array in self.named.values():
            array[:] = 0.0
        np.testing.assert_array_equal(self.flat, before)

    def test_all_that_does_not_fit_is_listed_with_both_shapes(self):
        del self.named["critic.2.bias"]
        self.named["actor.2.weight"] = np.zeros((5, 4))
        self.named["actor.9.bias"] = np.zeros(7)
        with self.assertRaises(ValueError) as caught:
            from_named(self.network, self.named)
        for words in (
            "critic.2.bias is missing",
            "actor.2.weight is (5, 4), this network has (2, 4)",
            "actor.9.bias (7,)",
        ):
            self.assertIn(words, str(caught.exception))


class ForwardTest(unittest.TestCase):
    def test_both_trunks_equal_torch_s_linear_layers(self):
        generator = np.random.default_rng(0)
        for hidden_sizes in ((), (5,), (16, 16), (7, 3, 9)):
            for activation in ACTIVATIONS:
                network = NetworkSpec(6, "gaussian", 3, hidden_sizes, activation)
                flat = random_parameters(network)
                for trunk, outputs in (("actor", 3), ("critic", 1)):
                    with self.subTest(hidden_sizes=hidden_sizes, activation=activation, trunk=trunk):
                        mlp = NumpyMlp(network.trunk(trunk), activation, 11)
                        scale = generator.uniform(0.1, 3.0, 6).astype(np.float32)
                        mlp.load(flat, scale)
                        out = np.empty((11, outputs), np.float32)
                        for _ in range(2):  # the second pass goes through memory that was used before
                            obs = generator.normal(0, 2, (11, 6)).astype(np.float32)
                            mlp.input[:, :-1] = obs
                            mlp.forward(out)
                            expected = sequential(network, flat, trunk)(torch.from_numpy(obs * scale)).detach()
                            np.testing.assert_allclose(out, expected, rtol=1e-5, atol=2e-6)

    def test_parameters_stay_those_that_were_loaded_until_the_next_load(self):
        network = NetworkSpec(1, "categorical", 2, (), "tanh")
        flat = linear_critic(network)
        mlp = NumpyMlp(network.trunk("critic"), "tanh", 1)
        mlp.load(flat, np.ones(1, np.float32))
        mlp.input[0, 0] = 3.0
        out = np.empty((1, 1), np.float32)
        mlp.forward(out)
        self.assertEqual(out[0, 0], 3.0)
        flat *= 2.0
        mlp.forward(out)
        self.assertEqual(out[0, 0], 3.0)
        mlp.load(flat, np.ones(1, np.float32))
        mlp.forward(out)
        self.assertEqual(out[0, 0], 6.0)


if __name__ == "__main__":
    unittest.main()
