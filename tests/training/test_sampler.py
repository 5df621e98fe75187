"""Rollouts for the learner from real actors: what they are sampled with, with and without overlap."""

import math
import multiprocessing
import unittest

import numpy as np

from ddp_ppo.config.ppo import PPOSettings
from ddp_ppo.config.settings import Config
from ddp_ppo.maths.moments import compute_batch_moments, empty_rms_state
from ddp_ppo.runs.console import Console
from ddp_ppo.runs.model import load_model
from ddp_ppo.sampling.actor_pool import ActorPool
from ddp_ppo.sampling.episodes import evaluation_seeds
from ddp_ppo.sampling.rollout import RAW
from ddp_ppo.sampling.shared_memory import SharedBlock
from ddp_ppo.training.plan import prepare
from ddp_ppo.training.sampler import Frozen, Sampler, actor_jobs
from ddp_ppo.training.trainer import train
from tests.support.files import OwnFolderTestCase

T, ACTORS, ENVS = 8, 2, 2
SEEDS = evaluation_seeds(1, 3)


class SamplerTest(unittest.TestCase):
    def sampler(self, *, env="CartPole-v1", **settings):
        """A sampler with its actors; `total_env_steps` is 4 rounds."""
        config = Config(
            env_id=env,
            rollout_length=T,
            total_env_steps=4 * T * ACTORS * ENVS,
            hidden_sizes=(8,),
            **{"num_actors": ACTORS, "envs_per_actor": ENVS, **settings},
        )
        plan = prepare(config, environ={})
        block = SharedBlock(plan.block_shapes)
        self.addCleanup(block.close)
        pool = ActorPool(actor_jobs(plan, block), timeout_seconds=30.0)
        self.addCleanup(pool.close)
        pool.wait_ready()
        return Sampler(plan, block, pool), plan

    def tearDown(self):
        self.doCleanups()
        self.assertEqual(multiprocessing.active_children(), [])

    def frozen(self, plan, scale=0.0, *, obs=None, returns=None):
        """A policy whose parameters are all `scale`."""
        parameters = np.full(plan.network.num_parameters, scale, np.float32)
        return Frozen(parameters, obs or empty_rms_state(plan.network.obs_size), returns or empty_rms_state(1))

    def rollouts(self, sampler, policies, evaluate=lambda: None):
        """Copies of what one round after the other gives."""
        found = []
        for round_index, now in enumerate(policies):
            data = sampler.collect(round_index, now)
            found.append({name: np.array(data.rollout[name]) for name in ("obs", "act", "logp", "value", "adv")})
            evaluate()
        return found

    def assert_equal(self, first, second):
        for name in first:
            np.testing.assert_array_equal(first[name], second[name], err_msg=name)

    def test_a_rollout_is_whole_and_brings_each_actor_s_statistics(self):
        sampler, plan = self.sampler()
        data = sampler.collect(0, self.frozen(plan))
        self.assertEqual(data.rollout.buffer_size, T * ACTORS * ENVS)
        self.assertEqual([actor.actor_id for actor in data.reports], [0, 1])
        counts = [{block: state["count"] for block, state in one.obs_rms_moments.items()} for one in data.reports]
        self.assertEqual(counts, [{0: T * ENVS}, {1: T * ENVS}])

    def test_the_moments_of_a_block_that_several_actors_share_are_taken_from_all_of_it(self):
        found, expected = [], []
        for each, (num_actors, envs_per_actor) in ((found, (4, 1)), (expected, (2, 2))):  # blocks of 2 environments
            sampler, plan = self.sampler(num_actors=num_actors, envs_per_actor=envs_per_actor)
            reports = sampler.collect(0, self.frozen(plan)).reports
            for name in ("obs_rms_moments", "return_rms_moments"):
                moments = {block: state for one in reports for block, state in getattr(one, name).items()}
                self.assertEqual(sorted(moments), [0, 1])
                each.append(moments)
        np.testing.assert_equal(found, expected)

    def test_it_is_sampled_with_the_policy_of_now(self):
        sampler, plan = self.sampler()
        # With all parameters c, V(s) of the last layer is c * (8 * tanh(...) + 1): 0 exactly where c is 0.
        first, second = self.rollouts(sampler, [self.frozen(plan, 0.0), self.frozen(plan, 1.0)])
        np.testing.assert_array_equal(first["value"], 0.0)
        self.assertGreater(np.abs(second["value"]).max(), 1.0)
        np.testing.assert_allclose(first["logp"], math.log(0.5), rtol=1e-6)

    def test_statistics_of_observations_are_those_it_is_told_and_named_in_the_result(self):
        sampler, plan = self.sampler()
        state = compute_batch_moments(np.random.default_rng(0).normal(3.0, 2.0, (50, 4)))
        data = sampler.collect(0, self.frozen(plan, obs=state))
        for name in ("mean", "var"):
            np.testing.assert_array_equal(data.rollout.normalization.obs_rms_state[name], state[name])

    def test_rewards_are_scaled_by_the_spread_of_the_discounted_return(self):
        sampler, plan = self.sampler()
        returns = {"mean": np.array([7.0]), "var": np.array([16.0]), "count": 10.0}
        data = sampler.collect(0, self.frozen(plan, returns=returns))
        self.assertAlmostEqual(data.rollout.normalization.reward_scale, 0.25, places=9)

    def test_nothing_is_normalised_where_the_settings_say_so(self):
        sampler, plan = self.sampler(normalize_obs=False, normalize_reward=False)
        returns = {"mean": np.array([7.0]), "var": np.array([16.0]), "count": 10.0}
        data = sampler.collect(0, self.frozen(plan, returns=returns))
        self.assertEqual(data.rollout.normalization, RAW)

    def test_with_overlap_a_round_is_sampled_with_the_policy_before(self):
        sampler, plan = self.sampler(overlap=True)
        policies = [self.frozen(plan, scale) for scale in (0.0, 1.0, 2.0)]
        found = self.rollouts(sampler, policies)
        # Rounds 1 and 2 are sampled with the first policy, round 3 with the second.
        lagging, plan = self.sampler()
        expected = self.rollouts(lagging, [policies[0], policies[0], policies[1]])
        for first, second in zip(found, expected, strict=True):
            self.assert_equal(first, second)

    def test_evaluations_in_between_change_nothing(self):  # O-28
        for overlap in (False, True):
            with self.subTest(overlap=overlap):
                sampler, plan = self.sampler(overlap=overlap)
                policies = [self.frozen(plan, scale) for scale in (0.0, 1.0, 2.0)]
                undisturbed = self.rollouts(sampler, policies)
                sampler, plan = self.sampler(overlap=overlap)
                disturbed = self.rollouts(sampler, policies, lambda: sampler.evaluate(SEEDS, policies[2]))  # noqa: B023
                for first, second in zip(undisturbed, disturbed, strict=True):
                    self.assert_equal(first, second)

    def test_evaluations_run_the_given_policy_once_for_each_seed(self):
        sampler, plan = self.sampler(env="tests.long.environments:FromMinusOne-v0", overlap=True)
        sampler.collect(0, self.frozen(plan))
        policy = self.frozen(plan)
        policy.parameters[:] = 0.0
        actor_bias = plan.network.trunk("actor")[-1].view(policy.parameters)[-1]
        for choice, expected in ((0, 5.0), (1, 0.0), (2, 0.0)):
            actor_bias[:] = np.eye(3)[choice]
            episodes = sampler.evaluate(SEEDS, policy)
            self.assertEqual([episode.seed for episode in episodes], SEEDS)
            self.assertEqual([episode.episode_return for episode in episodes], [expected] * 3)

    def test_states_are_those_after_the_round_that_was_collected(self):  # C18
        sampler, plan = self.sampler(env="tests.support.fixtures:Count-v0", overlap=True)
        for round_index in range(2):
            sampler.collect(round_index, self.frozen(plan))
            sampler.settle()  # the actors have sampled the next round meanwhile
            for state in sampler.states:
                self.assertEqual(state["episode_length"].tolist(), [T * (round_index + 1)] * ENVS)


class BytesTest(OwnFolderTestCase):
    """What is trained on does not depend on whether a rollout holds bytes or float32."""

    def trained(self, dtype, **settings):
        """The parameters after four rounds of episodes that are all truncated."""
        config = Config(
            env_id="tests.support.brought:brought/Camera-v0",
            env_kwargs={"dtype": dtype},
            **{
                "num_actors": 2,
                "envs_per_actor": 2,
                "rollout_length": 16,
                "total_env_steps": 256,
                "hidden_sizes": (8,),
                "eval_interval": 0,
                "eval_episodes": 1,
                "device": "cpu",
                "output_dir": str(self.folder / dtype),
                **settings,
            },
        )
        result = train(config, console=Console.silent())
        return load_model(result.folder, "current").parameters

    def test_pictures_through_convolutions_with_recomputed_advantages(self):  # N-29
        settings = {
            "num_actors": 2,
            "conv_channels": (4,),
            "ppo": PPOSettings(recompute_advantages=True, minibatch_size=16),
        }
        self.assert_equal(settings)

    def test_flat_bytes_of_a_network_in_numpy(self):  # N-29
        self.assert_equal({"num_actors": 1, "ppo": PPOSettings(minibatch_size=16), "normalize_obs": False})

    def assert_equal(self, settings):
        np.testing.assert_array_equal(self.trained("uint8", **settings), self.trained("float32", **settings))


if __name__ == "__main__":
    unittest.main()
