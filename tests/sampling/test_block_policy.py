"""A policy made of policies for blocks gives each row the bits that the complete block would give it."""

import unittest

import numpy as np

from ddp_ppo.envs.build import describe_env
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.policies.numpy_policy import NumpyPolicy
from ddp_ppo.policies.torch_policy import TorchPolicy
from ddp_ppo.sampling.block_policy import BlockPolicy
from ddp_ppo.sampling.blocks import env_blocks, parts_of
from tests.support.counting_policy import CountingPolicy
from tests.support.fixtures import random_parameters

T, B = 5, 7  # blocks of 4 and 3 environments
OWN = (slice(0, 3), slice(3, 5), slice(5, 7), slice(0, 7))


class BlockPolicyTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.generator = np.random.default_rng(3)

    def slices(self, env):
        """A rollout in which some episodes end, none of whose arrays was computed from a policy."""
        obs = self.generator.normal(size=(T + 1, B, env.obs_size)).astype(np.float32)
        final_obs = self.generator.normal(size=(T, B, env.obs_size)).astype(np.float32)
        return {"obs": obs, "final_obs": final_obs, "truncated": self.generator.random((T, B)) < 0.5}

    def rollout(self, policy, slices, own):
        """Actions, samples, outputs, log-probabilities and values of the environments `own`."""
        head, number = policy.head, own.stop - own.start
        state = np.zeros((number, policy.state_size), np.float32)
        act = np.zeros((T, number, *head.act_shape), head.act_dtype)
        obs = np.ascontiguousarray(slices["obs"][:, own])
        actions = np.array([np.array(policy.act(step, obs[step], act[step], state)) for step in range(T)])
        values = policy.rollout_values({name: np.ascontiguousarray(rows[:, own]) for name, rows in slices.items()})
        return [actions, act, policy.outputs.copy(), policy.logp(act), *values]

    def assert_same_for_every_share(self, policy_class, env_id, hidden=(33, 9)):
        env = describe_env(env_id)
        network = NetworkSpec.for_env(env, hidden, "tanh")
        slices, parameters = self.slices(env), random_parameters(network)

        def ready(block, size):
            policy = policy_class(network, env, size, T)
            policy.load(parameters, None)
            policy.begin(np.random.default_rng(block))
            return policy

        whole = [self.rollout(ready(i, own.stop - own.start), slices, own) for i, own in enumerate(env_blocks(B))]
        expected = [np.concatenate(pair, axis=1) for pair in zip(*whole, strict=True)]
        for own in OWN:
            parts = parts_of(own, B)
            policy = BlockPolicy([ready(part.block, part.size) for part in parts], parts)
            for found, wanted in zip(self.rollout(policy, slices, own), expected, strict=True):
                np.testing.assert_array_equal(found, wanted[:, own])

    def test_numpy(self):
        self.assert_same_for_every_share(NumpyPolicy, "InvertedPendulum-v5")
        self.assert_same_for_every_share(NumpyPolicy, "CartPole-v1")

    def test_torch(self):
        self.assert_same_for_every_share(TorchPolicy, "InvertedPendulum-v5")

    def test_a_policy_with_a_memory(self):
        self.assert_same_for_every_share(CountingPolicy, "CartPole-v1", hidden=(8,))

    def test_the_state_of_every_environment_is_its_own(self):
        env = describe_env("CartPole-v1")
        network = NetworkSpec.for_env(env, (4,), "tanh")
        parts = parts_of(slice(2, 6), B)
        policy = BlockPolicy([CountingPolicy(network, env, part.size, T) for part in parts], parts)
        state = np.array([[0.0], [2.0], [3.0], [7.0]], np.float32)  # choices 0 0 1 0, in runs of 3
        self.assertEqual(policy.mode(np.zeros((4, env.obs_size), np.float32), state).tolist(), [0, 0, 1, 0])
        self.assertEqual(state[:, 0].tolist(), [1.0, 3.0, 4.0, 8.0])

    def test_one_generator_serves_block_after_block(self):
        env = describe_env("InvertedPendulum-v5")
        network = NetworkSpec.for_env(env, (), "tanh")
        parts = parts_of(slice(0, B), B)
        policy = BlockPolicy([NumpyPolicy(network, env, part.size, 1) for part in parts], parts)
        policy.load(np.zeros(network.num_parameters, np.float32), None)  # mean 0, deviation 1
        policy.begin(np.random.default_rng(1))
        act = np.zeros((B, 1), np.float32)
        policy.act(0, np.zeros((B, env.obs_size), np.float32), act)
        np.testing.assert_array_equal(act[:, 0], np.random.default_rng(1).standard_normal(B, np.float32))


if __name__ == "__main__":
    unittest.main()
