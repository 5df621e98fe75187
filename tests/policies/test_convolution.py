"""Convolutions over the flat vector against torch's own modules, for both orders of an image's dimensions."""

import unittest

import numpy as np
import torch
from torch import nn

from ddp_ppo.errors import EnvError
from ddp_ppo.policies.convolution import convolved
from ddp_ppo.policies.network import NetworkSpec, to_named
from ddp_ppo.policies.torch_policy import ActorCritic
from ddp_ppo.protocols import EnvSpec
from tests.support.fixtures import random_parameters

ENV = EnvSpec("A", 11 * 9 * 2, "discrete", 3, image=(11, 9, 2), obs_scale=1 / 255)


def seeing(image=(11, 9, 2), conv_channels=(4, 5), hidden_sizes=(6,), image_layout="auto"):
    """A network that sees images."""
    env = EnvSpec("A", int(np.prod(image)), "discrete", 3, image=image, obs_scale=1 / 255)
    return NetworkSpec.for_env(env, hidden_sizes, "relu", conv_channels, image_layout=image_layout)


def module(network, flat, trunk):
    """The trunk out of torch's modules; its input is [N, C, H, W]."""
    named = {name: torch.from_numpy(array) for name, array in to_named(network, flat).items()}
    layers = []
    for index, layer in enumerate(network.trunk(trunk)):
        weight, bias = named[f"{layer.name}.weight"], named[f"{layer.name}.bias"]
        if index < len(network.conv_channels):
            one = nn.Conv2d(layer.inputs // 9, layer.outputs, 3, stride=2, padding=1)
            weight = weight.reshape(one.weight.shape)
        else:
            one = nn.Linear(layer.inputs, layer.outputs)
            layers += [nn.Flatten()]  # does nothing to what is flat
        one.load_state_dict({"weight": weight, "bias": bias})
        layers += [one, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class ShapeTest(unittest.TestCase):
    def test_layers_by_hand(self):
        network = seeing()  # 11 x 9 -> 6 x 5 -> 3 x 3
        self.assertEqual(network.conv_shapes, ((2, 11, 9), (4, 6, 5), (5, 3, 3)))
        shapes = [(layer.name, layer.inputs, layer.outputs) for layer in network.trunk("actor")]
        expected = [("actor.0", 18, 4), ("actor.2", 36, 5), ("actor.4", 45, 6), ("actor.6", 6, 3)]
        self.assertEqual(shapes, expected)
        self.assertEqual(network.num_parameters, 2 * (19 * 4 + 37 * 5 + 46 * 6) + 7 * 3 + 7)

    def test_channels_are_where_the_shape_of_an_image_says(self):
        for image, channels in (((2, 11, 9), 2), ((1, 8, 8), 1), ((8, 8, 1), 1), ((11, 9, 3), 3), ((7, 7, 20), 20)):
            with self.subTest(image):
                self.assertEqual(seeing(image).picture[0], channels)

    def test_a_shape_that_does_not_say_needs_the_setting(self):  # N-08
        cube = EnvSpec("A", 125, "discrete", 3, image=(5, 5, 5))
        with self.assertRaisesRegex(
            EnvError, r"A's images \[5, 5, 5\] .* set image_layout: channels_last or channels_fi"
        ):
            NetworkSpec.for_env(cube, (6,), "relu", (4,))
        slab = EnvSpec("A", 16 * 4 * 20, "discrete", 3, image=(16, 4, 20))
        for layout, picture in {"channels_first": (16, 4, 20), "channels_last": (20, 16, 4)}.items():
            self.assertEqual(NetworkSpec.for_env(slab, (6,), "relu", (4,), image_layout=layout).picture, picture)

    def test_without_convolutions_an_image_is_flattened_as_it_is(self):
        self.assertEqual(NetworkSpec.for_env(ENV, (6,), "relu"), NetworkSpec(198, "categorical", 3, (6,), "relu"))

    def test_what_is_no_image_is_refused(self):
        with self.assertRaisesRegex(EnvError, r"conv_channels: A observes no image, a Box \[H, W, C\]"):
            NetworkSpec.for_env(EnvSpec("A", 4, "discrete", 2), (6,), "relu", (4,))


class ForwardTest(unittest.TestCase):
    def test_one_convolution_by_hand(self):
        network = seeing((3, 2, 1), (1,), (1,), "channels_last")  # 0 1 / 2 3 / 4 5, with zeros around it
        kernel = torch.arange(9.0, 0.0, -1.0)[:, None]  # 9 8 7 / 6 5 4 / 3 2 1
        found = convolved(network, torch.arange(6.0)[None], [(kernel, torch.tensor([-7.0]))])
        above = 0 * 5 + 1 * 4 + 2 * 2 + 3 * 1
        below = 2 * 8 + 3 * 7 + 4 * 5 + 5 * 4
        self.assertEqual(found.tolist(), [[above - 7.0, below - 7.0]])

    def test_no_pixel_is_left_out(self):
        for side in (5, 8, 9):
            network = seeing((side, side, 1), (1,), (1,))
            kernel = [(torch.ones(9, 1), torch.zeros(1))]
            moved = convolved(network, torch.eye(side * side), kernel).sum(1)
            self.assertTrue(bool((moved > 0).all()), side)

    def test_both_trunks_equal_torch_s_modules_in_both_orders(self):
        for image, order in (((11, 9, 2), (0, 3, 1, 2)), ((2, 11, 9), (0, 1, 2, 3))):
            network = seeing(image)
            flat = random_parameters(network)
            policy = ActorCritic(network, torch.from_numpy(flat.copy()))
            obs = torch.from_numpy(np.random.default_rng(1).normal(size=(7, 198)).astype(np.float32))
            picture = obs.reshape(-1, *image).permute(order)
            with self.subTest(image), torch.no_grad():
                expected = module(network, flat, "actor")(picture)
                self.assertGreater(float(expected.abs().max()), 0.1)
                torch.testing.assert_close(policy.actor(obs), expected, atol=1e-6, rtol=1e-5)
                torch.testing.assert_close(policy.critic(obs), module(network, flat, "critic")(picture)[:, 0])

    def test_any_leading_dimensions_fit(self):
        network = seeing()
        policy = ActorCritic(network, torch.from_numpy(random_parameters(network)))
        obs = torch.randn(2, 3, 198, generator=torch.Generator().manual_seed(0))
        torch.testing.assert_close(policy.actor(obs).flatten(0, 1), policy.actor(obs.flatten(0, 1)))

    def test_every_parameter_of_the_policy_gets_a_gradient(self):
        network = seeing()
        policy = ActorCritic(network, torch.from_numpy(random_parameters(network)))
        obs = torch.randn(64, 198, generator=torch.Generator().manual_seed(0))
        evaluation = policy.evaluate(obs, torch.arange(64) % 3)
        (gradient,) = torch.autograd.grad((evaluation.logp + evaluation.value).sum(), policy.flat)
        for layer in network.layers:
            self.assertTrue(bool(layer.view(gradient).any()), layer.name)

    def test_bytes_are_scaled_where_no_statistics_normalise_them(self):
        policy = ActorCritic(seeing(), torch.zeros(seeing().num_parameters))
        policy.load_obs_rms_state(None)
        np.testing.assert_allclose(policy.normalize(torch.full((198,), 255.0)), 1.0, rtol=1e-6)
        state = {"mean": np.full(198, 100.0), "var": np.full(198, 4.0), "count": 9.0}
        policy.load_obs_rms_state(state)
        np.testing.assert_allclose(policy.normalize(torch.full((198,), 103.0)), 1.5, rtol=1e-6)


if __name__ == "__main__":
    unittest.main()
