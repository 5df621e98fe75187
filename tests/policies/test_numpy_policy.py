"""The NumPy policy against the torch one, and against values worked out by hand."""

import itertools
import unittest

import numpy as np

from ddp_ppo.maths.distributions import prepare_action
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.policies.numpy_policy import NumpyPolicy
from ddp_ppo.policies.torch_policy import TorchPolicy
from ddp_ppo.protocols import EnvSpec
from tests.support.fixtures import linear_critic, random_parameters

INF = float("inf")
ENVS = {
    "bounded": EnvSpec("A", 5, "box", 3, (-0.5, -1.0, 0.1), (0.5, 0.25, INF)),
    "unbounded": EnvSpec("B", 5, "box", 3, (-INF,) * 3, (INF,) * 3),
    "discrete": EnvSpec("C", 5, "discrete", 4),
}
STATE = {"mean": np.array([0.5, -3.0, 100.0, 0.0, 1.0]), "var": np.array([4.0, 0.01, 9.0, 1.0, 0.0]), "count": 10.0}
POLICIES = (NumpyPolicy, TorchPolicy)
T, K = 6, 3


def one_rollout(policy_class, network, env, state):
    """Everything that a policy says during one rollout and after it, always of the same inputs."""
    generator = np.random.default_rng(1)
    obs = generator.normal(0.3, 2.0, (T, K, 5)).astype(np.float32)
    obs[..., 4] = 1.0  # a feature that never varies
    policy = policy_class(network, env, K, T)
    policy.load(random_parameters(network), state)
    policy.begin(np.random.default_rng(2))
    act = np.zeros((T, K, 3), np.float32) if env.action_kind == "box" else np.zeros((T, K), np.int64)
    env_act = [np.array(policy.act(t, obs[t], act[t])) for t in range(T)]
    return {
        "act": act,
        "env_act": np.array(env_act),
        "outputs": policy.outputs.copy(),
        "logp": policy.logp(act),
        "values": policy.values(obs.reshape(T * K, 5)),
        "mode": policy.mode(obs[0]).copy(),
    }


class ViewTest(unittest.TestCase):
    def test_views_of_actor_and_critic_agree_with_the_torch_policy(self):
        for actor_view, critic_view in ((((0, 3),), ()), (((0, 1), (3, 5)), ((1, 4),))):
            network = NetworkSpec(5, "gaussian", 3, (8,), "tanh", actor_view=actor_view, critic_view=critic_view)
            for state in (None, STATE):
                results = (one_rollout(each, network, ENVS["bounded"], state) for each in (NumpyPolicy, TorchPolicy))
                fast, reference = results
                for name in reference:
                    with self.subTest(name, actor_view=actor_view, norm=bool(state)):
                        np.testing.assert_allclose(fast[name], reference[name], rtol=1e-6, atol=1e-6)

    def test_columns_outside_its_view_do_not_reach_a_network(self):
        network = NetworkSpec(5, "gaussian", 3, (8,), "tanh", actor_view=((0, 3),), critic_view=((1, 5),))
        policy = NumpyPolicy(network, ENVS["unbounded"], 2, 1)
        policy.load(random_parameters(network), STATE)
        obs = np.float32([[1, 2, 3, 4, 5], [1, 2, 3, -9, 7]])
        mode, values = policy.mode(obs), policy.values(obs)
        np.testing.assert_array_equal(mode[0], mode[1])
        self.assertNotEqual(*values)
        obs[1] = (-8, 2, 3, 4, 5)
        self.assertEqual(*policy.values(obs))


class AgreementTest(unittest.TestCase):
    def test_every_number_agrees_with_the_torch_policy(self):
        for env_name, env in ENVS.items():
            for activation in ("tanh", "relu", "elu"):
                for hidden_sizes in ((), (8,), (32, 16)):
                    for state in (None, STATE):
                        network = NetworkSpec.for_env(env, hidden_sizes, activation)
                        fast, reference = (one_rollout(c, network, env, state) for c in POLICIES)
                        for name in reference:
                            with self.subTest(
                                name, env=env_name, act=activation, hidden=hidden_sizes, norm=bool(state)
                            ):
                                self.assertEqual(fast[name].dtype, reference[name].dtype)
                                np.testing.assert_allclose(fast[name], reference[name], rtol=1e-6, atol=1e-6)


class ActTest(unittest.TestCase):
    def test_sample_is_kept_raw_and_the_environment_gets_it_within_the_bounds(self):
        for policy_class, env in itertools.product(POLICIES, (ENVS["bounded"], ENVS["unbounded"])):
            with self.subTest(policy_class.__name__, env=env.env_id):
                result = one_rollout(policy_class, NetworkSpec.for_env(env, (8,), "tanh"), env, None)
                raw, clipped = prepare_action(result["act"], env.action_low, env.action_high)
                np.testing.assert_array_equal(result["env_act"], clipped)
                self.assertEqual((raw != clipped).any(), env is ENVS["bounded"])
                mode = prepare_action(result["outputs"][0], env.action_low, env.action_high)[1]
                np.testing.assert_allclose(result["mode"], mode, rtol=1e-6)

    def test_gaussian_samples_have_the_mean_and_spread_of_the_policy(self):
        network = NetworkSpec(1, "gaussian", 2, (), "tanh")
        flat = linear_critic(network)
        flat[network.log_std_slice] = np.log([0.5, 2.0])
        network.trunk("actor")[0].view(flat)[1] = [1.0, -3.0]
        policy = NumpyPolicy(network, EnvSpec("A", 1, "box", 2, (-INF, -INF), (INF, INF)), 5000, 1)
        policy.load(flat, None)
        policy.begin(np.random.default_rng(0))
        act = np.empty((5000, 2), np.float32)
        policy.act(0, np.zeros((5000, 1), np.float32), act)
        np.testing.assert_allclose(act.mean(axis=0), [1.0, -3.0], atol=0.15)
        np.testing.assert_allclose(act.std(axis=0), [0.5, 2.0], rtol=0.05)

    def test_choices_come_with_the_probabilities_of_the_logits(self):
        network = NetworkSpec(1, "categorical", 3, (), "tanh")
        flat = linear_critic(network)
        network.trunk("actor")[0].view(flat)[1] = np.log([0.5, 0.3, 0.2])
        policy = NumpyPolicy(network, EnvSpec("A", 1, "discrete", 3), 20000, 1)
        policy.load(flat, None)
        policy.begin(np.random.default_rng(0))
        act = np.empty(20000, np.int64)
        policy.act(0, np.zeros((20000, 1), np.float32), act)
        np.testing.assert_allclose(np.bincount(act) / 20000, [0.5, 0.3, 0.2], atol=0.02)
        self.assertEqual(policy.mode(np.zeros((20000, 1), np.float32))[7], 0)

    def test_environment_dimensions_and_steps_draw_different_noise(self):
        network = NetworkSpec(1, "gaussian", 2, (), "tanh")
        flat = linear_critic(network)
        policy = NumpyPolicy(network, EnvSpec("A", 1, "box", 2, (-INF, -INF), (INF, INF)), K, T)
        policy.load(flat, None)
        policy.begin(np.random.default_rng(0))
        act = np.empty((T, K, 2), np.float32)
        for t in range(T):
            policy.act(t, np.zeros((K, 1), np.float32), act[t])
        self.assertEqual(len(np.unique(act)), act.size)

    def test_log_std_out_of_range_acts_as_its_bound(self):  # O-15
        network = NetworkSpec(1, "gaussian", 1, (), "tanh")
        flat = linear_critic(network)
        policy = NumpyPolicy(network, EnvSpec("A", 1, "box", 1, (-INF,), (INF,)), 1, 1)
        act = np.empty((1, 1, 1), np.float32)
        logps = []
        for log_std in (-104.0, -5.0):
            flat[network.log_std_slice] = log_std
            policy.load(flat, None)
            policy.begin(np.random.default_rng(0))
            policy.act(0, np.zeros((1, 1), np.float32), act[0])
            self.assertNotEqual(float(act[0, 0, 0]), 0.0)
            logps.append(float(policy.logp(act)[0, 0]))
        self.assertTrue(np.isfinite(logps[0]))
        self.assertEqual(logps[0], logps[1])


class ValuesTest(unittest.TestCase):
    def test_any_number_of_rows_comes_back_in_order(self):
        network = NetworkSpec(1, "categorical", 2, (), "tanh")
        flat = linear_critic(network)
        policy = NumpyPolicy(network, EnvSpec("A", 1, "discrete", 2), 1, 1)
        policy.load(flat, None)
        for num_rows in (0, 1, 511, 512, 513, 1025):
            obs = np.arange(num_rows, dtype=np.float32)[:, None]
            np.testing.assert_array_equal(policy.values(obs), obs[:, 0])

    def test_values_do_not_depend_on_the_other_rows(self):
        env = ENVS["discrete"]
        network = NetworkSpec.for_env(env, (32, 32), "tanh")
        policy = NumpyPolicy(network, env, 1, 1)
        policy.load(random_parameters(network), STATE)
        obs = np.random.default_rng(0).normal(size=(600, 5)).astype(np.float32)
        np.testing.assert_array_equal(policy.values(obs)[550:], policy.values(obs[512:])[38:])


if __name__ == "__main__":
    unittest.main()
