"""The torch actor-critic against nn.Sequential and torch.distributions, and the rollout's side of it."""

import itertools
import unittest

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical, Normal

from ddp_ppo.maths.moments import empty_rms_state
from ddp_ppo.policies.network import NetworkSpec, to_named
from ddp_ppo.policies.torch_policy import ActorCritic, TorchPolicy
from ddp_ppo.protocols import EnvSpec
from tests.support.fixtures import linear_critic, random_parameters

INF = float("inf")
NETWORKS = [
    NetworkSpec(4, head, 3, hidden_sizes, activation)
    for head in ("gaussian", "categorical")
    for hidden_sizes in ((), (8,), (16, 8))
    for activation in ("tanh", "relu", "elu")
]
ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU, "elu": nn.ELU}


def actor_critic(network):
    return ActorCritic(network, torch.from_numpy(random_parameters(network)))


def batch_of(network, *leading):
    generator = torch.Generator().manual_seed(0)
    obs = torch.randn(*leading, network.obs_size, generator=generator)
    if network.head == "gaussian":
        return obs, torch.randn(*leading, network.action_size, generator=generator)
    return obs, torch.randint(network.action_size, leading, generator=generator)


class ReferenceModel:
    """The same network from torch's own parts."""

    def __init__(self, network, flat):
        named = {name: torch.from_numpy(array) for name, array in to_named(network, flat).items()}
        self.trunks = {}
        for trunk, outputs in (("actor", network.action_size), ("critic", 1)):
            sizes = [network.obs_size, *network.hidden_sizes, outputs]
            layers = []
            for i, outs in itertools.pairwise(sizes):
                layers += [nn.Linear(i, outs), ACTIVATIONS[network.activation]()]
            self.trunks[trunk] = nn.Sequential(*layers[:-1])
            own = {n.removeprefix(f"{trunk}."): tensor for n, tensor in named.items() if n.startswith(trunk)}
            self.trunks[trunk].load_state_dict(own)
        self.log_std = nn.Parameter(named["log_std"]) if network.head == "gaussian" else None

    def evaluate(self, obs, act):
        output = self.trunks["actor"](obs)
        value = self.trunks["critic"](obs).squeeze(-1)
        if self.log_std is None:
            distribution = Categorical(logits=output)
            return distribution.log_prob(act), distribution.entropy(), value
        normal = Normal(output, self.log_std.exp())
        return normal.log_prob(act).sum(-1), normal.entropy().sum(-1), value


class ActorCriticTest(unittest.TestCase):
    def test_evaluation_equals_torch_s_own_parts_and_so_do_its_gradients(self):
        for network in NETWORKS:
            with self.subTest(network):
                policy, reference = actor_critic(network), ReferenceModel(network, random_parameters(network))
                obs, act = batch_of(network, 9)
                evaluation, expected = policy.evaluate(obs, act), reference.evaluate(obs, act)
                for ours, theirs in zip(evaluation, expected, strict=True):
                    np.testing.assert_allclose(ours.detach().expand(9), theirs.detach(), rtol=1e-5, atol=1e-5)
                sum(term.mean() for term in evaluation).backward()
                sum(term.mean() for term in expected).backward()
                named = to_named(network, policy.flat.grad.numpy())
                for trunk, module in reference.trunks.items():
                    for name, parameter in module.named_parameters():
                        gradient = named[f"{trunk}.{name}"]
                        np.testing.assert_allclose(gradient, parameter.grad, rtol=1e-4, atol=1e-5)
                if reference.log_std is not None:
                    np.testing.assert_allclose(named["log_std"], reference.log_std.grad, rtol=1e-4, atol=1e-5)

    def test_methods_of_the_step_loop_agree_with_evaluate(self):
        for network in NETWORKS:
            policy = actor_critic(network)
            obs, act = batch_of(network, 9)
            logp, _, value = policy.evaluate(obs, act)
            torch.testing.assert_close(policy.logp(act, policy.actor(obs)), logp)
            torch.testing.assert_close(policy.critic(obs), value)

    def test_leading_dimensions_are_kept(self):
        for network in NETWORKS[::4]:
            policy = actor_critic(network)
            obs, act = batch_of(network, 5, 2)
            logp, _, value = policy.evaluate(obs, act)
            self.assertEqual((logp.shape, value.shape), ((5, 2), (5, 2)))
            flat_logp, _, flat_value = policy.evaluate(obs.reshape(10, -1), act.reshape(10, *act.shape[2:]))
            torch.testing.assert_close(logp.reshape(-1), flat_logp)
            torch.testing.assert_close(value.reshape(-1), flat_value)

    def test_one_vector_holds_all_parameters(self):
        policy = actor_critic(NETWORKS[0])
        self.assertEqual([name for name, _ in policy.named_parameters()], ["flat"])
        self.assertEqual(policy.flat.numel(), NETWORKS[0].num_parameters)

    def test_policy_and_normaliser_are_where_the_parameters_are(self):
        network = NetworkSpec(5, "gaussian", 2, (8,), "tanh")
        policy = ActorCritic(network, torch.zeros(network.num_parameters, device="meta"))  # refuses other devices' data
        policy.load_obs_rms_state({"mean": np.zeros(5), "var": np.ones(5), "count": 1.0})
        obs, act = torch.zeros(3, 5, device="meta"), torch.zeros(3, 2, device="meta")
        for tensor in (*policy.evaluate(policy.normalize(obs), act), *policy.state_dict().values()):
            self.assertEqual(tensor.device.type, "meta")

    def test_normaliser_is_part_of_the_state_dict(self):
        network = NetworkSpec(1, "categorical", 2, (), "tanh")
        flat = linear_critic(network)
        policy, other = (ActorCritic(network, torch.from_numpy(flat.copy())) for _ in range(2))
        policy.load_obs_rms_state({"mean": np.array([3.0]), "var": np.array([4.0]), "count": 5.0})
        other.load_state_dict(policy.state_dict())
        obs = torch.tensor([[5.0], [1e9], [-1e9]])
        torch.testing.assert_close(other.normalize(obs), torch.tensor([[1.0], [10.0], [-10.0]]))

    def test_normaliser_without_state_is_the_identity_and_clips_before_any_data(self):
        network = NetworkSpec(1, "categorical", 2, (), "tanh")
        flat = linear_critic(network)
        policy = ActorCritic(network, torch.from_numpy(flat))
        obs = torch.tensor([[0.5], [-1e6]])
        torch.testing.assert_close(policy.normalize(obs), obs)
        policy.load_obs_rms_state(empty_rms_state(1))
        torch.testing.assert_close(policy.normalize(obs), torch.tensor([[0.5], [-10.0]]))
        policy.load_obs_rms_state(None)
        torch.testing.assert_close(policy.normalize(obs), obs)


class TorchPolicyTest(unittest.TestCase):
    def setUp(self):
        self.env = EnvSpec("A", 4, "box", 3, (-0.5,) * 3, (0.5,) * 3)
        self.network = NetworkSpec.for_env(self.env, (8,), "tanh")
        self.policy = TorchPolicy(self.network, self.env, 2, 3)
        self.parameters = random_parameters(self.network)
        self.policy.load(self.parameters, None)
        self.obs = np.random.default_rng(0).normal(size=(3, 2, 4)).astype(np.float32)
        self.act = np.zeros((3, 2, 3), np.float32)

    def sample(self, seed=0):
        self.policy.begin(np.random.default_rng(seed))
        env_act = np.array([self.policy.act(t, self.obs[t], self.act[t]).copy() for t in range(3)])
        return env_act, self.policy.logp(self.act), self.policy.values(self.obs.reshape(6, 4))

    def test_log_probabilities_are_those_of_the_raw_sample(self):  # C5
        env_act, logp, values = self.sample()
        expected = ReferenceModel(self.network, self.parameters)
        expected_logp, _, expected_values = expected.evaluate(torch.from_numpy(self.obs), torch.from_numpy(self.act))
        np.testing.assert_allclose(logp, expected_logp.detach(), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(values, expected_values.detach().reshape(-1), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(env_act, np.clip(self.act, -0.5, 0.5))
        self.assertTrue((np.abs(self.act) > 0.5).any())

    def test_same_noise_gives_the_same_sample(self):
        first, again, other = (self.sample(seed)[0] for seed in (0, 0, 1))
        np.testing.assert_array_equal(first, again)
        self.assertFalse(np.array_equal(first, other))

    def test_sampling_builds_no_graph(self):  # C23
        saved = []
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: saved.append(1) or tensor, lambda tensor: tensor):
            self.sample()
            self.policy.mode(self.obs[0])
            self.assertEqual(saved, [])
            actor_critic(self.network).evaluate(*batch_of(self.network, 2))
        self.assertNotEqual(saved, [])  # the hooks do see a graph where one is built

    def test_parameters_are_copied(self):
        before = self.policy.mode(self.obs[0]).copy()
        self.parameters[:] = 0.0
        np.testing.assert_array_equal(self.policy.mode(self.obs[0]), before)

    def test_choices_of_a_categorical_are_integers_with_their_probabilities(self):
        network = NetworkSpec(1, "categorical", 3, (), "tanh")
        flat = linear_critic(network)
        network.trunk("actor")[0].view(flat)[1] = np.log([0.5, 0.3, 0.2])
        policy = TorchPolicy(network, EnvSpec("A", 1, "discrete", 3), 20000, 1)
        policy.load(flat, None)
        policy.begin(np.random.default_rng(0))
        act = np.empty((1, 20000), np.int64)
        env_act = policy.act(0, np.zeros((20000, 1), np.float32), act[0])
        np.testing.assert_array_equal(env_act, act[0])
        np.testing.assert_allclose(np.bincount(act[0]) / 20000, [0.5, 0.3, 0.2], atol=0.02)
        np.testing.assert_allclose(policy.logp(act)[0], np.log([0.5, 0.3, 0.2])[act[0]], rtol=1e-5)
        self.assertEqual(policy.mode(np.zeros((1, 1), np.float32)).tolist(), [0])


if __name__ == "__main__":
    unittest.main()
