"""One round of PPO, from the annotated rollout to parameters and metrics, on both backends of the gradient step."""

import copy
import itertools
import math
import unittest

import numpy as np
import torch

from ddp_ppo.config.settings import Config
from ddp_ppo.learners.ppo.learner import (
    PPO,
    Averaging,
    captures_steps,
    explained_variance,
    fresh,
    resolve_update_backend,
    standardize,
)
from ddp_ppo.maths.distributions import LOG_STD_MAX, LOG_STD_MIN
from ddp_ppo.maths.moments import compute_batch_moments
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.policies.numpy_policy import NumpyPolicy
from ddp_ppo.policies.torch_policy import ActorCritic, TorchPolicy
from ddp_ppo.protocols import EnvSpec
from tests.support.fixtures import random_parameters, sampled_rollout

torch.set_num_threads(1)  # threads that wait for each other make tiny products 10 times slower on a busy machine

CPU = torch.device("cpu")
BACKENDS = ("numpy", "torch")
BOX = EnvSpec("A", 5, "box", 3, (-1.0,) * 3, (1.0,) * 3)
DISCRETE = EnvSpec("B", 5, "discrete", 4)
STATE = {"mean": np.full(5, 0.4), "var": np.full(5, 3.0), "count": 100.0}
T, B = 20, 5


def config(**settings):
    """100 samples as one mini-batch, once, unless said otherwise."""
    defaults = {"num_epochs": 1, "minibatch_size": 100, "learning_rate_schedule": "constant", "gamma": 0.9}
    return Config(**{**defaults, "gae_lambda": 0.8, **settings})


def network_of(env, hidden_sizes=(16, 16)):
    return NetworkSpec.for_env(env, hidden_sizes, "tanh")


def learner(settings, env=BOX, *, parameters=None, **arguments):
    network = network_of(env)
    flat = random_parameters(network) if parameters is None else parameters
    return PPO(settings, network, fresh(flat.copy()), device=CPU, **arguments)


def rollout_of(ppo, env=BOX, *, state=None, policy_class=NumpyPolicy, seed=0, **arguments):
    """A round of the learner's own policy."""
    policy = policy_class(ppo.network, env, B, T)
    policy.load(ppo.policy.flat.detach().numpy().copy(), state)
    return sampled_rollout(policy, PPO.rollout_fields(ppo.network), T, B, seed=seed, state=state, **arguments)


def train(ppo, rollout, round_index=0, num_rounds=1):
    """The metrics of one step."""
    return ppo.train_step(rollout, round_index=round_index, done=round_index / num_rounds)[1]


def parameters_of(ppo):
    return ppo.policy.flat.detach().numpy().copy()


class Recorder:
    """An `Averaging` that keeps, for each mini-batch, its gradient and the parameters that it belongs to."""

    def __init__(self, **fields):
        self.ppo = None
        self.gradients, self.parameters = [], []
        self.averaging = Averaging(gradient=self.keep, **fields)

    def keep(self, gradient):
        self.gradients.append(gradient.numpy().copy())
        self.parameters.append(parameters_of(self.ppo))


def recorded(settings, env=BOX, **arguments):
    recorder = Recorder()
    recorder.ppo = learner(settings, env, averaging=recorder.averaging, **arguments)
    return recorder.ppo, recorder


def advantages(rollout, value, final_value, reward):
    """Generalised advantages of a rollout [T, B] step by step, gamma 0.9 and lambda 0.8."""
    adv = np.zeros((T, B))
    following = np.zeros(B)
    for t in reversed(range(T)):
        terminated, truncated = rollout["terminated"][t], rollout["truncated"][t]
        bootstrap = np.where(terminated, 0.0, np.where(truncated, final_value[t], value[t + 1]))
        adv[t] = reward[t] + 0.9 * bootstrap - value[t] + 0.72 * np.where(terminated | truncated, 0.0, following)
        following = adv[t]
    return adv


def loss_gradient(network, flat, state, rollout, adv, ret):
    """Autograd's gradient [P] of the PPO loss over a whole rollout, written from the paper."""
    policy = ActorCritic(network, torch.from_numpy(flat.copy()))
    policy.load_obs_rms_state(state)
    obs = torch.from_numpy(rollout["obs"][:-1].reshape(T * B, -1).copy())
    act = torch.from_numpy(rollout["act"].reshape(T * B, *rollout["act"].shape[2:]).copy())
    logp, entropy, value = policy.evaluate(policy.normalize(obs), act)
    ratio = (logp - torch.from_numpy(rollout["logp"].reshape(-1).copy())).exp()
    adv = torch.from_numpy(((adv - adv.mean()) / adv.std()).reshape(-1)).float()
    surrogate = torch.minimum(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
    error = (value - torch.from_numpy(np.array(ret, np.float32).reshape(-1))).square().mean()
    (-surrogate + 0.5 * error - 0.02 * entropy.mean()).backward()
    return policy.flat.grad.numpy()


def assert_close(actual, expected, tolerance=1e-4):
    """Relative to the largest entry."""
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * np.abs(expected).max())


class RatioTest(unittest.TestCase):
    def ratios(self, env, policy_class):
        ppo = learner(config(), env)
        rollout = rollout_of(ppo, env, state=STATE, policy_class=policy_class)
        obs, act = (torch.from_numpy(rollout[name]) for name in ("obs", "act"))
        with torch.no_grad():
            policy = ppo.policy
            policy.load_obs_rms_state(STATE)
            logp = policy.evaluate(policy.normalize(obs[:-1].reshape(T * B, -1)), act.reshape(T * B, *act.shape[2:]))[0]
        return np.exp(logp.numpy().astype(np.float64) - rollout["logp"].reshape(-1))

    def test_every_ratio_is_one_before_the_first_step_on_the_reference_path(self):  # C5
        for env in (BOX, DISCRETE):
            self.assertLessEqual(np.abs(self.ratios(env, TorchPolicy) - 1).max(), 1e-6)

    def test_every_ratio_is_one_before_the_first_step_on_the_fast_path(self):  # C5
        sigma = np.exp(random_parameters(network_of(BOX))[network_of(BOX).log_std_slice]).min()
        self.assertLessEqual(np.abs(self.ratios(BOX, NumpyPolicy) - 1).max(), 1e-5 / min(1.0, sigma))
        self.assertLessEqual(np.abs(self.ratios(DISCRETE, NumpyPolicy) - 1).max(), 1e-5)

    def test_clipped_actions_do_not_move_the_ratio_or_the_kl(self):  # O-12
        for backend in BACKENDS:
            ppo = learner(config(update_backend=backend))
            rollout = rollout_of(ppo)
            self.assertGreater(np.abs(rollout["act"]).max(), 1.0)
            metrics = train(ppo, rollout)
            self.assertAlmostEqual(metrics["train/approx_kl"], 0.0, delta=1e-6)
            self.assertEqual(metrics["train/clip_fraction"], 0.0)


class GradientTest(unittest.TestCase):
    """What the gradient of a mini-batch is made of, read where learners would average it."""

    def test_first_gradient_is_that_of_the_loss_over_the_standardized_buffer(self):  # C11
        for backend, env in itertools.product(BACKENDS, (BOX, DISCRETE)):
            with self.subTest(backend, env=env.env_id):
                ppo, recorder = recorded(config(update_backend=backend, entropy_coef=0.02), env)
                rollout = rollout_of(ppo, env, state=STATE)
                expected = loss_gradient(
                    ppo.network, parameters_of(ppo), STATE, rollout, rollout["adv"], rollout["ret"]
                )
                train(ppo, rollout)
                assert_close(recorder.gradients[0], expected)

    def second_gradient(self, backend, recompute):
        """Gradient of the second epoch, what belongs to it, and the rollout, whose rewards were scaled by 0.5."""
        settings = config(
            update_backend=backend,
            num_epochs=2,
            learning_rate=0.03,
            entropy_coef=0.02,
            recompute_advantages=recompute,
        )
        ppo, recorder = recorded(settings)
        policy = NumpyPolicy(ppo.network, BOX, B, T)
        policy.load(parameters_of(ppo), STATE)
        rollout = sampled_rollout(policy, PPO.rollout_fields(ppo.network), T, B, state=STATE, reward_scale=0.5)
        rollout["reward"][3, 2] = 100.0  # above the clip of scaled rewards; no part of the old targets
        train(ppo, rollout)
        return ppo, recorder.gradients[1], recorder.parameters[1], rollout

    def test_old_log_probabilities_and_targets_stay_fixed_over_the_epochs(self):  # C25
        for backend in BACKENDS:
            ppo, gradient, parameters, rollout = self.second_gradient(backend, recompute=False)
            expected = loss_gradient(ppo.network, parameters, STATE, rollout, rollout["adv"], rollout["ret"])
            assert_close(gradient, expected)

    def test_recomputed_advantages_are_those_of_the_critic_as_it_is_then(self):
        for backend in BACKENDS:
            ppo, gradient, parameters, rollout = self.second_gradient(backend, recompute=True)
            self.assertTrue(rollout["truncated"].any())
            policy = ActorCritic(ppo.network, torch.from_numpy(parameters.copy()))
            policy.load_obs_rms_state(STATE)
            with torch.no_grad():
                value, final_value = (
                    policy.critic(policy.normalize(torch.from_numpy(rollout[name]))).numpy()
                    for name in ("obs", "final_obs")
                )
            adv = advantages(rollout, value, final_value, np.clip(rollout["reward"] * 0.5, -10.0, 10.0))
            expected = loss_gradient(ppo.network, parameters, STATE, rollout, adv, adv + value[:-1])
            assert_close(gradient, expected)
            self.assertGreater(np.abs(rollout["adv"] - adv).max(), 0.1)

    def test_rollout_is_left_as_the_actors_wrote_it(self):  # C25
        for recompute in (False, True):
            ppo = learner(config(num_epochs=3, minibatch_size=32, recompute_advantages=recompute))
            rollout = rollout_of(ppo)
            before = {name: array.copy() for name, array in rollout.arrays.items()}
            train(ppo, rollout)
            for name, array in before.items():
                np.testing.assert_array_equal(rollout[name], array, name)


class MinibatchTest(unittest.TestCase):
    """A linear policy with one-hot observations: row i of a gradient is not 0 just where sample i was in the batch."""

    def run_epochs(self, num_samples, settings, *, rank=0, round_index=0):
        env = EnvSpec("A", num_samples, "box", 1, (-1.0,), (1.0,))
        network = NetworkSpec.for_env(env, (), "tanh")
        parameters = np.zeros(network.num_parameters, np.float32)
        gradients = []
        averaging = Averaging(gradient=lambda gradient: gradients.append(gradient.numpy().copy()))
        ppo = PPO(settings, network, fresh(parameters), device=CPU, averaging=averaging, rank=rank)
        policy = NumpyPolicy(network, env, 1, num_samples)
        policy.load(parameters.copy(), None)
        rollout = sampled_rollout(policy, PPO.rollout_fields(network), num_samples, 1)
        rollout["obs"][:-1, 0] = np.eye(num_samples)
        rollout["ret"][:, 0] = np.linspace(4.0, 6.0, num_samples)  # far from every value
        metrics = train(ppo, rollout, round_index)
        actor, critic = network.layers
        rows = [np.flatnonzero(critic.view(gradient)[:-1, 0]).tolist() for gradient in gradients]
        return rows, [actor.view(gradient)[:-1, 0] for gradient in gradients], rollout, metrics

    def sizes(self, num_samples, minibatch_size, **settings):
        for backend in BACKENDS:
            options = config(minibatch_size=minibatch_size, update_backend=backend, **settings)
            rows, _, _, metrics = self.run_epochs(num_samples, options)
            per_epoch = -(-num_samples // minibatch_size)
            self.assertEqual(metrics["train/gradient_steps"], len(rows))
            self.assertTrue(all(np.isfinite(list(metrics.values()))))
            for start in range(0, len(rows), per_epoch):
                epoch = rows[start : start + per_epoch]
                self.assertEqual(sorted(itertools.chain(*epoch)), list(range(num_samples)))  # each sample once
            yield [len(one) for one in rows]

    def test_last_minibatch_of_one_sample_is_trained_on_without_nan(self):  # O-30
        for sizes in self.sizes(129, 64):
            self.assertEqual(sizes, [64, 64, 1])

    def test_last_minibatch_has_what_is_left(self):  # O-32
        for sizes in self.sizes(100, 64, num_epochs=3):
            self.assertEqual(sizes, [64, 36] * 3)

    def test_minibatch_larger_than_the_buffer_is_one_batch(self):  # O-32
        for sizes in self.sizes(100, 256, num_epochs=2):
            self.assertEqual(sizes, [100, 100])

    def test_every_epoch_round_and_learner_has_an_order_of_its_own(self):
        settings = config(minibatch_size=8, num_epochs=2)
        first, again = (self.run_epochs(64, settings)[0] for _ in range(2))
        self.assertEqual(first, again)
        self.assertNotEqual(first[:8], first[8:])
        self.assertNotEqual(first, self.run_epochs(64, settings, round_index=1)[0])
        self.assertNotEqual(first, self.run_epochs(64, settings, rank=1)[0])
        self.assertNotEqual(first[0], list(range(8)))

    def test_advantages_are_standardized_over_the_buffer_not_over_the_minibatch(self):  # C11
        for backend in BACKENDS:
            rows, actor_rows, rollout, _ = self.run_epochs(
                90, config(minibatch_size=30, max_grad_norm=None, update_backend=backend)
            )
            adv, act = rollout["adv"][:, 0].astype(np.float64), rollout["act"][:, 0, 0]
            standardized = (adv - adv.mean()) / adv.std()
            # Ratio 1, mean 0, std 1: d loss / d mean = -adv * act, averaged over 30 samples.
            expected = np.zeros(90)
            expected[rows[0]] = (-standardized * act / 30)[rows[0]]
            np.testing.assert_allclose(actor_rows[0], expected, atol=1e-6)

    def test_advantages_stay_as_they_are_if_told_so(self):
        _, actor_rows, rollout, _ = self.run_epochs(90, config(minibatch_size=90, normalize_advantages=False))
        expected = -rollout["adv"][:, 0] * rollout["act"][:, 0, 0] / 90
        np.testing.assert_allclose(actor_rows[0], expected, rtol=1e-4, atol=1e-6)


class BufferTest(unittest.TestCase):
    def test_buffer_is_counted_then_cleared_and_not_trained_on_twice(self):  # C11, C15
        ppo = learner(config())
        rollout = rollout_of(ppo)
        self.assertEqual(rollout.buffer_size, T * B)
        self.assertEqual(train(ppo, rollout)["buffer_size"], float(T * B))
        self.assertEqual(rollout.buffer_size, 0)
        with self.assertRaisesRegex(ValueError, "trained on already"):
            train(ppo, rollout)

    def test_state_dict_of_the_trained_policy_is_returned(self):  # C11
        ppo = learner(config())
        before = parameters_of(ppo)
        state, _ = ppo.train_step(rollout_of(ppo, state=STATE))
        np.testing.assert_array_equal(state["flat"], parameters_of(ppo))
        self.assertFalse(np.array_equal(state["flat"], before))
        np.testing.assert_allclose(state["obs_mean"], 0.4, rtol=1e-6)

    def test_buffer_of_one_sample_stays_finite(self):  # O-31
        for backend in BACKENDS:
            ppo = learner(config(update_backend=backend))
            policy = NumpyPolicy(ppo.network, BOX, 1, 1)
            policy.load(parameters_of(ppo), None)
            metrics = train(ppo, sampled_rollout(policy, PPO.rollout_fields(ppo.network), 1, 1))
            self.assertTrue(np.isfinite(parameters_of(ppo)).all())
            self.assertEqual(metrics["train/policy_loss"], 0.0)

    def test_constant_observations_and_rewards_stay_finite(self):  # O-33, O-63
        ppo = learner(config(num_epochs=3))
        rollout = rollout_of(ppo)
        for name, value in (("adv", 0.25), ("ret", 3.0), ("value", 2.75)):
            rollout[name][:] = value
        metrics = train(ppo, rollout)
        self.assertTrue(math.isnan(metrics.pop("train/explained_variance")))
        self.assertTrue(all(map(math.isfinite, metrics.values())))

    def test_normaliser_is_the_one_that_the_round_was_sampled_with(self):  # C7
        first = compute_batch_moments(np.random.default_rng(0).normal(3.0, 2.0, (50, 5)))
        ppo, recorder = recorded(config(entropy_coef=0.02))
        rollout = rollout_of(ppo, state=first)
        expected = loss_gradient(ppo.network, parameters_of(ppo), first, rollout, rollout["adv"], rollout["ret"])
        train(ppo, rollout)
        assert_close(recorder.gradients[0], expected)


class BackendsTest(unittest.TestCase):
    def test_both_backends_train_the_same_parameters(self):
        for env, options in itertools.product((BOX, DISCRETE), ({}, {"recompute_advantages": True})):
            settings = {"num_epochs": 5, "minibatch_size": 22, "entropy_coef": 0.01, "value_clip_range": 0.2}
            results = []
            for backend in BACKENDS:
                ppo = learner(config(update_backend=backend, **settings, **options), env)
                for round_index in range(2):
                    metrics = train(ppo, rollout_of(ppo, env, seed=round_index), round_index, 2)
                results.append((parameters_of(ppo), metrics))
            (fast, fast_metrics), (reference, reference_metrics) = results
            np.testing.assert_allclose(fast, reference, rtol=0, atol=1e-5)  # 50 steps, two rounds of sampling
            for name in reference_metrics.keys() - {"time/transfer_seconds"}:
                np.testing.assert_allclose(fast_metrics[name], reference_metrics[name], rtol=1e-3, atol=1e-5)

    def test_cpu_trains_with_numpy_and_others_with_torch_unless_told_otherwise(self):
        self.assertEqual(resolve_update_backend(config(), "cpu"), "numpy")
        self.assertEqual(resolve_update_backend(config(), "cuda"), "torch")
        self.assertEqual(resolve_update_backend(config(update_backend="torch"), "cpu"), "torch")

    def test_steps_become_graphs_on_cuda_unless_learners_meet_inside_or_torch_is_asked_for(self):
        meeting = Averaging(is_per_minibatch=True)
        self.assertTrue(captures_steps(config(), "cuda", Averaging()))
        self.assertFalse(captures_steps(config(), "cuda", meeting))
        self.assertFalse(captures_steps(config(update_backend="torch"), "cuda", Averaging()))
        self.assertFalse(captures_steps(config(), "cpu", Averaging()))


class KlTest(unittest.TestCase):
    def epochs(self, *, averaging=None, **settings):
        options = {"num_epochs": 6, "learning_rate": 0.02, "minibatch_size": 20, **settings}
        ppo = learner(config(**options), averaging=averaging or Averaging())
        return train(ppo, rollout_of(ppo))["train/epochs"]

    def test_epochs_stop_behind_the_one_that_went_too_far(self):
        self.assertEqual(self.epochs(), 6.0)
        self.assertEqual(self.epochs(target_kl=1e6), 6.0)
        self.assertEqual(self.epochs(target_kl=1e-6), 1.0)
        self.assertEqual(self.epochs(target_kl=1e-6, update_backend="torch"), 1.0)

    def test_kl_of_the_last_epoch_is_reported(self):
        ppo = learner(config(num_epochs=20, learning_rate=0.003, target_kl=0.05))
        metrics = train(ppo, rollout_of(ppo))
        self.assertGreater(metrics["train/approx_kl"], 0.05)
        self.assertTrue(1 < metrics["train/epochs"] < 20)
        self.assertEqual(metrics["train/gradient_steps"], metrics["train/epochs"])

    def test_learner_that_averages_parameters_decides_alone(self):  # C14
        averaging = Averaging(scalar=lambda kl: 1e9)
        self.assertEqual(self.epochs(target_kl=1e6, averaging=averaging), 6.0)

    def test_learners_that_average_gradients_decide_by_their_common_kl(self):  # C14
        for common, expected in ((1e9, 1.0), (0.0, 6.0)):
            averaging = Averaging(scalar=lambda kl, common=common: common, is_per_minibatch=True)
            self.assertEqual(self.epochs(target_kl=1.0, averaging=averaging), expected)

    def test_adaptive_schedule_adapts_instead_of_stopping(self):
        self.assertEqual(self.epochs(target_kl=1e-6, learning_rate_schedule="adaptive"), 6.0)


class LearningRateTest(unittest.TestCase):
    def rates(self, ppo, rounds, num_rounds=5):
        return [train(ppo, rollout_of(ppo, seed=i), i, num_rounds)["train/learning_rate"] for i in rounds]

    def test_linear_schedule_falls_to_zero_behind_the_last_round(self):  # O-53
        ppo = learner(config(learning_rate=3e-4, learning_rate_schedule="linear"))
        np.testing.assert_allclose(self.rates(ppo, range(5)), [3.0e-4, 2.4e-4, 1.8e-4, 1.2e-4, 0.6e-4], rtol=1e-9)

    def test_linear_schedule_goes_on_where_a_resumed_run_goes_on(self):  # O-53
        settings = config(learning_rate=3e-4, learning_rate_schedule="linear")
        first, resumed = learner(settings), learner(settings)
        self.rates(first, range(2))
        resumed.load_state_dict(first.state_dict())
        np.testing.assert_allclose(self.rates(resumed, range(2, 5)), [1.8e-4, 1.2e-4, 0.6e-4], rtol=1e-9)

    def test_constant_schedule_stays(self):
        self.assertEqual(self.rates(learner(config(learning_rate=3e-4)), range(3)), [3e-4] * 3)

    def test_scheduled_rate_is_the_one_that_steps(self):
        for backend in BACKENDS:
            moved = []
            for num_rounds in (1000, 2):  # round 1 of so many
                settings = {"learning_rate": 1e-3, "learning_rate_schedule": "linear", "max_grad_norm": None}
                ppo = learner(config(update_backend=backend, **settings))
                before = parameters_of(ppo)
                train(ppo, rollout_of(ppo), 1, num_rounds)
                moved.append(np.abs(parameters_of(ppo) - before).max())
            self.assertAlmostEqual(moved[1] / moved[0], 0.5 / 0.999, 2)

    def adaptive(self, kl, **settings):
        options = {"learning_rate": 1e-3, "learning_rate_schedule": "adaptive", "target_kl": 0.01, **settings}
        return learner(config(**options), averaging=Averaging(scalar=lambda own: kl))

    def test_adaptive_rate_follows_the_common_kl_of_the_round_before(self):
        for kl, expected in ((0.021, 1e-3 / 1.5), (0.0049, 1.5e-3), (0.019, 1e-3), (0.0051, 1e-3)):
            np.testing.assert_allclose(self.rates(self.adaptive(kl), range(2)), [1e-3, expected], rtol=1e-9)

    def test_adaptive_rate_stays_within_its_bounds(self):
        self.assertAlmostEqual(self.rates(self.adaptive(1.0, learning_rate=2e-6), range(9))[-1], 1e-6, 12)
        self.assertAlmostEqual(self.rates(self.adaptive(0.0, learning_rate=5e-3), range(9))[-1], 1e-2, 12)

    def test_adapted_rate_survives_a_resume(self):  # O-38
        first, resumed = self.adaptive(1.0), self.adaptive(1.0)
        self.rates(first, range(5))
        self.assertEqual(resumed.load_state_dict(first.state_dict()), [])
        np.testing.assert_allclose(self.rates(resumed, [5]), [1e-3 / 1.5**5], rtol=1e-9)


class ExtremesTest(unittest.TestCase):
    def test_underflown_log_std_of_a_checkpoint_is_brought_back_and_said(self):  # O-15
        ppo = learner(config())
        state = ppo.state_dict()
        self.assertEqual(ppo.load_state_dict(state), [])
        state["parameters"][ppo.network.log_std_slice] = -104.0
        self.assertRegex(*ppo.load_state_dict(state), "log_std .* outside its range")
        np.testing.assert_array_equal(parameters_of(ppo)[ppo.network.log_std_slice], LOG_STD_MIN)
        rollout = rollout_of(ppo)
        self.assertTrue(np.isfinite(rollout["act"]).all() and np.isfinite(rollout["logp"]).all())
        train(ppo, rollout)
        self.assertTrue(np.isfinite(parameters_of(ppo)).all())

    def test_entropy_bonus_cannot_explode_log_std(self):  # O-16
        env = EnvSpec("A", 2, "box", 2, (-1.0,) * 2, (1.0,) * 2)
        network = NetworkSpec.for_env(env, (8,), "tanh")
        for backend in BACKENDS:
            settings = config(entropy_coef=1.0, learning_rate=1e-2, update_backend=backend)
            ppo = PPO(settings, network, fresh(random_parameters(network)), device=CPU)
            for round_index in range(200):
                policy = NumpyPolicy(network, env, 4, 8)
                policy.load(parameters_of(ppo), None)
                rollout = sampled_rollout(policy, PPO.rollout_fields(network), 8, 4, seed=round_index)
                for name in ("reward", "adv", "ret"):
                    rollout[name][:] = 0.0
                metrics = train(ppo, rollout, round_index, 200)
                metrics.pop("train/explained_variance")
                self.assertTrue(all(map(math.isfinite, metrics.values())))
            np.testing.assert_array_equal(parameters_of(ppo)[network.log_std_slice], LOG_STD_MAX)

    def test_one_absurd_old_log_probability_leaves_everything_finite(self):  # O-17
        for backend, logp in itertools.product(BACKENDS, (-1e4, 1e4)):
            ppo = learner(config(update_backend=backend, num_epochs=3))
            rollout = rollout_of(ppo)
            rollout["logp"][4, 1] = logp
            metrics = train(ppo, rollout)
            self.assertTrue(np.isfinite(parameters_of(ppo)).all())
            self.assertTrue(all(map(math.isfinite, metrics.values())))


class StateTest(unittest.TestCase):
    def test_resumed_learner_goes_on_bit_for_bit(self):  # C18
        for backend in BACKENDS:
            settings = config(update_backend=backend, num_epochs=2, minibatch_size=30)
            straight, resumed = (
                learner(settings),
                learner(settings, parameters=np.zeros_like(parameters_of(learner(settings)))),
            )
            train(straight, rollout_of(straight), 0, 3)
            resumed.load_state_dict(straight.state_dict())
            for ppo in (straight, resumed):
                train(ppo, rollout_of(ppo, seed=1), 1, 3)
            for (name, one), other in zip(straight.state_dict().items(), resumed.state_dict().values(), strict=True):
                np.testing.assert_array_equal(one, other, name)
            self.assertEqual(straight.state_dict()["step"], 2 * 2 * 4)

    def test_state_is_a_copy(self):
        ppo = learner(config())
        state = ppo.state_dict()
        before = copy.deepcopy(state)
        train(ppo, rollout_of(ppo))
        for name, value in before.items():
            np.testing.assert_array_equal(state[name], value)

    def test_parameters_of_another_network_are_refused(self):
        state = learner(config(), DISCRETE).state_dict()
        with self.assertRaisesRegex(ValueError, "parameters"):
            learner(config()).load_state_dict(state)

    def test_training_writes_to_the_parameters_it_was_given(self):
        flat = random_parameters(network_of(BOX))
        ppo = PPO(config(), network_of(BOX), fresh(flat), device=CPU)
        before = flat.copy()
        train(ppo, rollout_of(ppo))
        np.testing.assert_array_equal(flat, parameters_of(ppo))
        self.assertFalse(np.array_equal(flat, before))


class MetricsTest(unittest.TestCase):
    def test_metrics_are_means_over_epochs_and_name_what_was_done(self):
        ppo = learner(config(num_epochs=3, minibatch_size=64, learning_rate=1e-12))
        rollout = rollout_of(ppo)
        error = float(np.square(rollout["value"][:-1] - rollout["ret"]).mean())
        metrics = train(ppo, rollout)
        self.assertAlmostEqual(metrics["train/value_loss"], error, 4)
        self.assertEqual((metrics["train/epochs"], metrics["train/gradient_steps"]), (3.0, 6.0))
        std = np.exp(parameters_of(ppo)[ppo.network.log_std_slice])
        self.assertAlmostEqual(metrics["train/action_std"], float(std.mean()), 6)
        self.assertAlmostEqual(metrics["train/entropy"], float((np.log(std) + 1.418939).sum()), 5)

    def test_clip_fraction_is_weighted_by_samples(self):  # O-66
        for backend in BACKENDS:
            ppo = learner(config(minibatch_size=64, learning_rate=1e-12, update_backend=backend))
            rollout = rollout_of(ppo)
            rollout["logp"].reshape(-1)[:25] -= 1.0
            self.assertAlmostEqual(train(ppo, rollout)["train/clip_fraction"], 0.25, 6)

    def test_choices_have_no_standard_deviation(self):
        ppo = learner(config(), DISCRETE)
        self.assertTrue(math.isnan(train(ppo, rollout_of(ppo, DISCRETE))["train/action_std"]))


class StandardizeTest(unittest.TestCase):
    def test_mean_becomes_zero_and_spread_one(self):
        adv = torch.tensor([1.0, 2.0, 3.0, 6.0])
        expected = (np.array([1, 2, 3, 6]) - 3.0) / math.sqrt((4 + 1 + 0 + 9) / 4)
        np.testing.assert_allclose(standardize(adv, adv), expected, rtol=1e-6)

    def test_equal_advantages_become_zero(self):  # O-33
        for value in (0.0, 0.1, 1e6, -3.3e-7):
            adv = torch.full((100,), value)
            np.testing.assert_array_equal(standardize(adv, adv), 0.0)

    def test_rounding_noise_is_not_amplified(self):  # O-33
        generator = torch.Generator().manual_seed(0)
        ret = torch.full((100,), 1000.0)
        value = ret + 1e-4 * torch.randn(100, generator=generator)  # one or two last bits of float32
        self.assertLess(float(standardize(ret - value, ret).abs().max()), 1e-3)

    def test_single_sample_becomes_zero(self):  # O-30
        self.assertEqual(standardize(torch.tensor([3.0]), torch.tensor([1.0])).tolist(), [0.0])


class ExplainedVarianceTest(unittest.TestCase):
    def test_known_values(self):
        ret = torch.tensor([1.0, 2.0, 3.0, 4.0])
        for value, expected in (
            (ret, 1.0),
            (torch.zeros(4), 0.0),
            (ret + 5.0, 1.0),
            (-ret, -3.0),
            (torch.tensor([1.0, 2.0, 3.0, 2.0]), 1.0 - 0.75 / 1.25),
        ):
            self.assertAlmostEqual(explained_variance(value, ret), expected, 6)

    def test_constant_returns_have_none(self):  # O-63
        for ret in (0.0, 0.1, 1e4):
            self.assertTrue(math.isnan(explained_variance(torch.randn(10), torch.full((10,), ret))))


if __name__ == "__main__":
    unittest.main()
