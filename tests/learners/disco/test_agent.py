"""The agent against the reference, its initialisation, and that actors act as it would."""

import math
import unittest

import numpy as np
import torch

from ddp_ppo.learners.disco.agent import AgentSpec, acting_parameters, initial_parameters, run, run_online
from ddp_ppo.learners.disco.batch import Heads, TakenHeads
from ddp_ppo.policies.numpy_policy import NumpyPolicy
from ddp_ppo.policies.torch_policy import TorchPolicy
from ddp_ppo.protocols import EnvSpec
from tests.support.disco_golden import SMALL_AGENT, golden, needs_data, of_max, random_agent, random_batch, small_agent

torch.set_num_threads(1)

SPEC = AgentSpec(4, 3, **SMALL_AGENT)


@needs_data
class ReferenceTest(unittest.TestCase):
    def test_outputs(self):  # C32
        for num_actions in (2, 3):
            arrays = golden(f"update5_A{num_actions}")
            agent, obs = small_agent(arrays, num_actions), arrays["rollout/obs"][0][:4]
            heads = run(agent, obs)
            for name, found in heads._asdict().items():
                with self.subTest(name, num_actions=num_actions):
                    self.assertLess(of_max(found[:3], arrays[f"agent_out_0/{name}"]), 1e-5)
            for action in range(num_actions):
                _, taken = run_online(agent, obs, torch.full((3, 4), action))
                with self.subTest(action=action, num_actions=num_actions):
                    self.assertLess(of_max(taken.aux_pi, arrays["agent_out_0/aux_pi"][:, :, action]), 1e-5)


class SizeTest(unittest.TestCase):
    def test_published_sizes(self):
        self.assertEqual(AgentSpec(4, 2).num_parameters, 911_501)  # CartPole
        self.assertEqual(AgentSpec(64, 3).num_parameters, 943_375)  # Catch 8x8

    def test_layers_fill_the_vector_without_gaps(self):
        start = 0
        for layer in SPEC.layers.values():
            self.assertEqual(layer.start, start)
            start += layer.size
        self.assertEqual(start, SPEC.num_parameters)


class InitialParametersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.spec = AgentSpec(4, 2)
        cls.flat = initial_parameters(cls.spec, np.random.default_rng(0))

    def test_biases_are_zero(self):
        for name, layer in self.spec.layers.items():
            self.assertFalse(layer.view(self.flat)[-1].any(), name)

    def test_weights_are_cut_normal(self):
        # A standard normal that is cut at 2 has the standard deviation 0.8796.
        for name, layer in self.spec.layers.items():
            weights = layer.view(self.flat)[:-1]
            scale = 0.01 if name in ("logits", "y") else 1 / math.sqrt(layer.inputs)
            with self.subTest(name):
                self.assertLessEqual(float(np.abs(weights).max()), 2.0 * scale * (1 + 1e-6))
                error = 4.0 / math.sqrt(2 * weights.size)  # four standard errors
                self.assertAlmostEqual(float(weights.std()) / (0.8796 * scale), 1.0, delta=error)
                self.assertAlmostEqual(float(weights.mean()) / scale, 0.0, delta=4.0 / math.sqrt(weights.size))

    def test_same_generator_same_parameters(self):
        again = initial_parameters(self.spec, np.random.default_rng(0))
        np.testing.assert_array_equal(again, self.flat)


class AgentTest(unittest.TestCase):
    def setUp(self):
        self.agent = random_agent(SPEC)
        self.batch = random_batch(5, 2, 3)

    def test_taken_heads_are_those_of_the_action(self):
        heads, taken = run_online(self.agent, self.batch.obs, self.batch.act)
        expected = run(self.agent, self.batch.obs)
        for name in Heads._fields:
            torch.testing.assert_close(getattr(heads, name), getattr(expected, name))
        steps, envs = torch.arange(5)[:, None], torch.arange(2)[None]
        for name in ("z", "q"):
            index = steps, envs, self.batch.act
            torch.testing.assert_close(getattr(taken, name), getattr(expected, name)[index], atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(taken.logits, expected.logits[:-1])
        torch.testing.assert_close(taken.y, expected.y[:-1])

    def test_meta_network_reads_constants_and_every_parameter_is_trained(self):
        heads, taken = run_online(self.agent, self.batch.obs, self.batch.act)
        self.assertFalse(any(each.requires_grad for each in heads))
        total = sum(each.square().sum() for each in taken)
        for piece, gradient in zip(
            self.agent.parameters, torch.autograd.grad(total, self.agent.parameters), strict=True
        ):
            self.assertEqual(piece.shape, gradient.shape)
            self.assertTrue(bool(gradient.any()))

    def test_gradient_is_that_of_finite_differences(self):
        agent = random_agent(SPEC, seed=1)
        agent.flat.mul_(3.0)
        obs, act = self.batch.obs, self.batch.act
        generator = torch.Generator().manual_seed(0)
        shapes = [each.shape for each in run_online(agent, obs, act)[1]]
        weights = TakenHeads(*(torch.randn(shape, generator=generator) for shape in shapes))

        def total():
            taken = run_online(agent, obs, act)[1]
            return sum((each * weight).sum() for each, weight in zip(taken, weights, strict=True))

        gradient = torch.cat([each.flatten() for each in torch.autograd.grad(total(), agent.parameters)])
        direction = torch.randn(gradient.shape, generator=generator)
        start = agent.flat.clone()
        ends = []
        for step in (1e-3, -1e-3):
            agent.flat.copy_(start + step * direction)
            ends.append(total().double().item())
        slope = float(gradient.double() @ direction.double())
        self.assertAlmostEqual((ends[0] - ends[1]) / 2e-3 / slope, 1.0, delta=2e-2)


class ActingTest(unittest.TestCase):
    def test_actors_have_the_agent_s_policy(self):
        for hidden_sizes in ((16,), (24, 16), (24, 12, 16)):
            spec = AgentSpec(4, 3, hidden_sizes)
            agent = random_agent(spec)
            agent.flat.add_(0.05)  # biases matter too
            env = EnvSpec("A", 4, "discrete", 3)
            policy = NumpyPolicy(spec.acting_network, env, 5, 1)
            policy.load(acting_parameters(spec, agent.flat.numpy()), None)
            policy.begin(np.random.default_rng(0))
            obs = np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32)
            policy.act(0, obs, np.zeros(5, np.int64))
            expected = agent.embed(torch.from_numpy(obs)).logits.detach().numpy()
            with self.subTest(hidden_sizes=hidden_sizes):
                self.assertGreater(np.abs(expected).max(), 0.1)
                np.testing.assert_allclose(policy.outputs[0], expected, atol=1e-6, rtol=1e-5)

    def test_actors_see_images_as_the_agent_does(self):
        for hidden_sizes in ((16,), (24, 16)):
            spec = AgentSpec(64, 3, hidden_sizes, conv_channels=(4, 5), image=(8, 8, 1), obs_scale=1 / 255)
            agent = random_agent(spec)
            agent.flat.add_(0.02)
            policy = TorchPolicy(spec.acting_network, EnvSpec("A", 64, "discrete", 3), 5, 1)
            policy.load(acting_parameters(spec, agent.flat.numpy()), None)
            policy.begin(np.random.default_rng(0))
            obs = np.random.default_rng(1).integers(0, 256, (5, 64)).astype(np.float32)
            policy.act(0, obs, np.zeros(5, np.int64))
            expected = agent.embed(torch.from_numpy(obs) / 255).logits.detach().numpy()
            with self.subTest(hidden_sizes=hidden_sizes):
                self.assertGreater(np.abs(expected - expected[0]).max(), 0.005)
                np.testing.assert_allclose(policy.outputs[0], expected, atol=1e-6, rtol=1e-5)


if __name__ == "__main__":
    unittest.main()
