"""Whole episodes with a fixed policy."""

import math
import unittest
from functools import partial

import numpy as np

from ddp_ppo.envs.build import make_batch_env
from ddp_ppo.policies.network import NetworkSpec, initial_parameters
from ddp_ppo.policies.numpy_policy import NumpyPolicy
from ddp_ppo.sampling.drive import Player
from ddp_ppo.sampling.episodes import EVAL_BLOCK, Episode, blocks_of, evaluation_seeds, num_instances, run_block
from tests.support import fixtures


class Still:
    """Always the first choice."""

    def choose(self, obs):
        return np.zeros(len(obs), np.int64)

    def after(self, ended):
        pass


def count(name="Count", max_episode_steps=None, **env_kwargs):
    """EVAL_BLOCK environments of tests/support/fixtures.py."""
    env_id = f"tests.support.fixtures:{name}-v0"
    return make_batch_env(env_id, EVAL_BLOCK, env_kwargs=env_kwargs, max_episode_steps=max_episode_steps)


def player_for(env, parameters=None, state=None):
    """A NumPy policy at play in a block of environments; random parameters unless given."""
    network = NetworkSpec.for_env(env.spec, () if parameters is not None else (16,), "tanh")
    policy = NumpyPolicy(network, env.spec, EVAL_BLOCK, 1)
    policy.load(initial_parameters(network, np.random.default_rng(5), 0.0) if parameters is None else parameters, state)
    return Player(policy, EVAL_BLOCK)


class RunBlockTest(unittest.TestCase):
    def test_there_is_one_episode_for_each_seed_in_their_order(self):
        seeds = [4, 1, 3, 2]
        expected = [Episode(seed, float(seed), seed, "terminated") for seed in seeds]
        self.assertEqual(run_block(count("SeedLength"), Still, seeds), expected)

    def test_fewer_seeds_than_environments_give_as_many_episodes(self):
        for seeds in ([3], [2, 5], [1, 1, 6]):
            with self.subTest(seeds=seeds):
                episodes = run_block(count("SeedLength"), Still, seeds)
                self.assertEqual([(episode.seed, episode.length) for episode in episodes], [(s, s) for s in seeds])

    def test_a_time_limit_truncates(self):
        (episode,) = run_block(count(max_episode_steps=7), Still, [11])
        self.assertEqual(episode, Episode(11, 7.0, 7, "truncated"))

    def test_an_episode_that_ends_in_both_ways_counts_as_terminated(self):
        env = count("Script", rewards=[1.5, -4.0], obs=[1, 2], reset_obs=0, term_at=1, trunc_at=1)
        self.assertEqual(run_block(env, Still, [8]), [Episode(8, -2.5, 2, "terminated")])

    def test_an_episode_without_end_is_cut_after_10000_steps(self):
        (episode,) = run_block(count(length=math.inf), Still, [1])
        self.assertEqual(episode, Episode(1, 10_000.0, 10_000, "cut"))

    def test_a_value_that_is_not_finite_ends_its_episode_and_is_named(self):
        for how, end, total in (("nan_reward", "reward nan", math.nan), ("nan_obs", "observation nan", 3.0)):
            number = fixtures.Watched.num_built + 1  # the second of them
            env = count("Misbehaving", how=how, at=3, number=number, length=4)
            whole, faulty = run_block(env, Still, [8, 9])
            self.assertEqual(whole, Episode(8, 4.0, 4, "terminated"))
            self.assertEqual((faulty.length, faulty.end), (3, end))
            np.testing.assert_equal(faulty.episode_return, total)
            self.assertEqual((whole.fault, faulty.fault), ("", f"{end} in step 3 of the episode of seed 9"))

    def test_actions_are_the_clipped_means(self):
        for mean, reward in ((0.25, 0.25), (3.0, 1.0), (-3.0, -1.0)):
            env = count("Echo", length=4)
            network = NetworkSpec.for_env(env.spec, (), "tanh")
            parameters = np.zeros(network.num_parameters, np.float32)
            network.trunk("actor")[-1].view(parameters)[-1] = mean
            with self.subTest(mean=mean):
                (episode,) = run_block(env, partial(player_for, env, parameters), [1])
                self.assertEqual(episode.episode_return, 4 * reward)

    def test_observations_are_normalised_with_the_given_state(self):
        env = count("Echo", length=3)
        network = NetworkSpec.for_env(env.spec, (), "tanh")
        parameters = np.zeros(network.num_parameters, np.float32)
        network.trunk("actor")[-1].view(parameters)[0, 0] = 1.0  # action = normalised observation
        state = {"mean": np.array([1.0]), "var": np.array([16.0]), "count": 10.0}
        (episode,) = run_block(env, partial(player_for, env, parameters, state), [1])
        # observations 0, 1, 2 become -1/4, 0, 1/4
        self.assertAlmostEqual(episode.episode_return, 0.0, places=6)
        state["mean"] = np.array([0.0])
        (episode,) = run_block(env, partial(player_for, env, parameters, state), [1])
        self.assertAlmostEqual(episode.episode_return, 0.75, places=6)

    def test_the_same_seed_gives_the_same_return_whoever_runs_it_beside_which_others(self):
        def returns(seeds):
            env = make_batch_env("Pendulum-v1", EVAL_BLOCK)
            return [episode.episode_return for episode in run_block(env, partial(player_for, env), seeds)]

        alone = [returns([seed])[0] for seed in (3, 7, 20)]
        self.assertEqual(returns([3, 7, 20]), alone)
        self.assertEqual(len(set(alone)), 3)

    def test_it_does_not_matter_in_how_many_environments_they_run(self):  # N-02
        seeds, found = [3, 7, 20, 4, 9], []
        for num_envs in (1, 2, EVAL_BLOCK, EVAL_BLOCK + 2):
            env = make_batch_env("Pendulum-v1", num_envs)
            found.append(run_block(env, partial(player_for, env), seeds))
        self.assertEqual([one.seed for one in found[0]], seeds)
        self.assertEqual(found, [found[0]] * 4)

    def test_running_again_in_the_same_environments_gives_the_same_episodes(self):
        env = make_batch_env("Pendulum-v1", EVAL_BLOCK)
        policy = player_for(env)
        first = run_block(env, lambda: policy, [3, 7])
        run_block(env, lambda: policy, [100, 101, 102, 103])
        self.assertEqual(run_block(env, lambda: policy, [3, 7]), first)


class InstancesTest(unittest.TestCase):
    def test_each_actor_builds_one_block_unless_there_are_fewer_episodes_blocks_or_instances(self):
        for num_episodes, num_actors, limit, expected in (
            (1, 1, None, [1]),
            (10, 3, None, [5, 5, 0]),
            (7, 2, None, [5, 5]),
            (20, 2, None, [5, 5]),
            (10, 2, 3, [2, 1]),
            (10, 2, 0, [0, 0]),
            (10, 1, 99, [5]),
        ):
            self.assertEqual(num_instances(num_episodes, num_actors, limit), expected)


class SeedsTest(unittest.TestCase):
    def test_they_are_named_streams_of_the_run_s_seed(self):
        expected = [
            int(np.random.SeedSequence(9, spawn_key=(4, episode)).generate_state(1)[0] >> 1) for episode in range(5)
        ]
        self.assertEqual(evaluation_seeds(9, 5), expected)

    def test_more_episodes_only_add_seeds(self):
        seeds = evaluation_seeds(1, 50)
        self.assertEqual(evaluation_seeds(1, 3), seeds[:3])
        self.assertEqual(len(set(seeds)), 50)
        self.assertFalse(set(seeds) & set(evaluation_seeds(2, 50)))

    def test_blocks_hold_as_many_seeds_as_environments_and_the_last_one_the_rest(self):
        blocks = blocks_of(range(2 * EVAL_BLOCK + 1))
        self.assertEqual([len(block) for block in blocks], [EVAL_BLOCK, EVAL_BLOCK, 1])
        self.assertEqual([seed for block in blocks for seed in block], [*range(2 * EVAL_BLOCK + 1)])
        self.assertEqual(blocks_of(range(EVAL_BLOCK)), [[*range(EVAL_BLOCK)]])
        self.assertEqual(blocks_of([]), [])


if __name__ == "__main__":
    unittest.main()
