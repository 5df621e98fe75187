"""An actor in this process: what it writes into its columns, what it reports, and how it goes on."""

import dataclasses
import math
import os
import tempfile
import unittest
from pathlib import Path

import numpy as np

from ddp_ppo.config.settings import Config
from ddp_ppo.errors import EnvError
from ddp_ppo.policies.network import initial_parameters
from ddp_ppo.sampling.actor import Actor
from ddp_ppo.sampling.episodes import EVAL_BLOCK
from ddp_ppo.sampling.finite import NonFiniteError
from tests.support import fixtures
from tests.support.process import actor_jobs

INF = math.inf


class ActorTestCase(unittest.TestCase):
    def jobs(self, name="Count", *, num_actors=1, num_envs=1, length=8, env_kwargs=None, **settings):
        """The block and the jobs for an environment of tests/support/fixtures.py, or for any other id."""
        fixtures.Watched.num_built = -1  # the plan builds one; those of the first actor are numbered from 0
        config = Config(
            env_id=name if "-" in name else f"tests.support.fixtures:{name}-v0",
            env_kwargs=env_kwargs or {},
            num_actors=num_actors,
            envs_per_actor=num_envs,
            rollout_length=length,
            **{"hidden_sizes": (), "normalize_obs": False, "normalize_reward": False, **settings},
        )
        block, jobs = actor_jobs(config)
        self.addCleanup(block.close)
        return block.arrays, jobs

    def actor(self, name="Count", **options):
        """The block's arrays and its only actor."""
        arrays, (job,) = self.jobs(name, **options)
        return arrays, self.built(job)

    def built(self, job):
        """An actor that is closed with the test."""
        actor = Actor(job)
        self.addCleanup(actor.close)
        return actor


class StatisticsTest(ActorTestCase):
    def test_it_reports_what_the_contract_names_and_its_state_and_seconds(self):
        _, actor = self.actor()
        contract = {"actor_id", "episodes", "episode_return_sum", "episode_returns", "episode_len_sum"}
        contract |= {"obs_rms_moments", "return_rms_moments", "sample_seconds", "annotate_seconds", "state"}
        self.assertLessEqual(contract, vars(actor.sample(0)).keys())

    def test_actors_are_numbered_over_all_learners(self):
        _, jobs = self.jobs(num_actors=2)
        ids = [self.built(dataclasses.replace(job, rank=rank)).sample(0).actor_id for rank in range(3) for job in jobs]
        self.assertEqual(ids, [0, 1, 2, 3, 4, 5])

    def test_every_finished_episode_counts_once_with_its_whole_return(self):  # O-08
        _, actor = self.actor(num_envs=2, length=8, env_kwargs={"length": 3})
        # Each environment ends episodes after steps 3, 6 | 9, 12, 15 | 18, 21, 24.
        for episodes in (4, 6, 6):
            stats = actor.sample(0)
            self.assertEqual(stats.episodes, episodes)
            self.assertEqual(stats.episode_returns, [3.0] * episodes)
            self.assertEqual(stats.episode_return_sum, 3.0 * episodes)
            self.assertEqual(stats.episode_len_sum, 3 * episodes)

    def test_an_episode_longer_than_the_rollout_is_reported_once_at_its_end(self):  # O-09
        _, actor = self.actor(length=128, env_kwargs={"length": 1000})
        for round_index in range(7):
            stats = actor.sample(round_index)
            self.assertEqual((stats.episodes, stats.episode_returns, stats.episode_len_sum), (0, [], 0))
        stats = actor.sample(7)
        self.assertEqual((stats.episodes, stats.episode_returns, stats.episode_len_sum), (1, [1000.0], 1000))

    def test_environments_out_of_step_with_each_other_keep_their_own_accounts(self):
        _, actor = self.actor("SeedLength", num_envs=3, length=4)
        actor._env.reset([2, 6, 3])  # then episodes of one step each
        # Environment 0 ends at steps 2, 3, 4; 1 never; 2 at 3, 4.
        stats = actor.sample(0)
        self.assertEqual(sorted(stats.episode_returns), [1.0, 1.0, 1.0, 2.0, 3.0])
        self.assertEqual(stats.episode_len_sum, 8)
        # Environment 1 ends at its 6th step, then at every one: 6, 1, 1; the others four times each.
        stats = actor.sample(1)
        self.assertEqual(sorted(stats.episode_returns), [1.0] * 10 + [6.0])
        self.assertEqual(stats.episode_len_sum, 16)

    def test_an_environment_that_never_ends_reports_no_episode(self):  # O-10
        _, actor = self.actor(env_kwargs={"length": INF})
        for round_index in range(3):
            stats = actor.sample(round_index)
            self.assertEqual((stats.episodes, stats.episode_return_sum, stats.episode_returns), (0, 0.0, []))

    def test_returns_are_raw_whatever_scales_the_rewards(self):
        arrays, actor = self.actor(env_kwargs={"length": 4}, normalize_reward=True)
        arrays["reward_scale"][0] = 0.01
        self.assertEqual(actor.sample(0).episode_returns, [4.0, 4.0])
        np.testing.assert_array_equal(arrays["reward"], np.ones((8, 1)))


class BlocksTest(ActorTestCase):
    """Four environments are two blocks of 2."""

    def test_an_actor_reports_the_moments_of_the_blocks_that_it_has_alone(self):
        for sizes, expected in (((4,), [[0, 1]]), ((1, 3), [[], [1]]), ((2, 2), [[0], [1]])):
            _, jobs = self.jobs(num_actors=len(sizes), num_envs=4 // len(sizes), normalize_obs=True)
            starts = np.cumsum([0, *sizes]).tolist()
            for job, first, size, blocks in zip(jobs, starts, sizes, expected, strict=False):
                own = dataclasses.replace(job, first_env=first, num_envs=size)
                self.assertEqual(sorted(self.built(own).sample(0).obs_rms_moments), blocks)

    def test_episodes_end_in_a_block_a_step_and_an_environment_of_the_learner(self):
        _, jobs = self.jobs(num_actors=2, num_envs=2, length=3, env_kwargs={"length": 2})
        ends = [self.built(job).sample(0).episode_ends for job in jobs]
        self.assertEqual(ends, [[(0, 1, 0), (0, 1, 1)], [(1, 1, 2), (1, 1, 3)]])


class MomentsTest(ActorTestCase):
    def test_they_are_those_of_this_rollout_s_raw_observations_alone(self):
        arrays, actor = self.actor(length=4, normalize_obs=True)
        arrays["obs_mean"][:], arrays["obs_var"][:], arrays["obs_count"][:] = 100.0, 9.0, 1000.0
        for mean in (1.5, 5.5, 9.5):  # of 0 1 2 3, of 4 5 6 7, of 8 9 10 11
            moments = actor.sample(0).obs_rms_moments[0]
            self.assertEqual(moments, {"mean": np.array([mean]), "var": np.array([1.25]), "count": 4.0})

    def test_they_cover_all_environments_and_not_the_row_after_the_rollout(self):
        _, actor = self.actor("SeedLength", num_envs=2, length=3, normalize_obs=True)
        actor._env.reset([2, 100])  # observed: 0 1 0 (the next would be 0) and 0 1 2 (the next would be 3)
        moments = actor.sample(0).obs_rms_moments[0]
        self.assertEqual(moments["count"], 6.0)
        self.assertAlmostEqual(moments["mean"][0], 4 / 6, places=12)
        self.assertAlmostEqual(moments["var"][0], 6 / 6 - (4 / 6) ** 2, places=12)

    def test_there_are_none_where_nothing_is_normalised(self):
        _, actor = self.actor()
        stats = actor.sample(0)
        self.assertEqual((stats.obs_rms_moments, stats.return_rms_moments), ({}, {}))

    def test_discounted_returns_run_from_each_episode_s_start_over_rollouts(self):
        _, actor = self.actor(length=4, env_kwargs={"length": 3}, normalize_reward=True, gamma=0.5)
        # R_t = 1 + R_(t-1) / 2 inside an episode of 3 steps: 1, 1.5, 1.75 | 1, 1.5, 1.75 | ...
        for returns in ([1, 1.5, 1.75, 1], [1.5, 1.75, 1, 1.5], [1.75, 1, 1.5, 1.75], [1, 1.5, 1.75, 1]):
            moments = actor.sample(0).return_rms_moments[0]
            mean = sum(returns) / 4
            self.assertAlmostEqual(moments["mean"][0], mean, places=12)
            self.assertAlmostEqual(moments["var"][0], sum((x - mean) ** 2 for x in returns) / 4, places=12)
            self.assertEqual(moments["count"], 4.0)

    def test_discounted_returns_are_raw(self):
        arrays, actor = self.actor(length=2, normalize_reward=True, gamma=0.5)
        arrays["reward_scale"][0] = 0.1
        self.assertAlmostEqual(actor.sample(0).return_rms_moments[0]["mean"][0], 1.25, places=12)


class RolloutTest(ActorTestCase):
    def test_no_step_is_made_up_and_none_is_lost(self):  # O-07
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        arrays, actor = self.actor(num_envs=2, length=8, env_kwargs={"length": 3, "folder": folder.name})
        for round_index in range(3):
            actor.sample(round_index)
            self.assertTrue((arrays["reward"] == 1.0).all())
        calls = [Path(folder.name, f"{os.getpid()}-{number}").read_text() for number in (0, 1)]
        self.assertEqual(calls, ["r" + "sssr" * 8] * 2)

    def test_observations_follow_the_episodes_over_rollouts(self):
        arrays, actor = self.actor(length=8, env_kwargs={"length": 3})
        actor.sample(0)
        self.assertEqual(arrays["obs"][:, 0, 0].tolist(), [0, 1, 2, 0, 1, 2, 0, 1, 2])
        self.assertEqual(np.flatnonzero(arrays["terminated"]).tolist(), [2, 5])
        self.assertFalse(arrays["truncated"].any())
        actor.sample(1)
        self.assertEqual(arrays["obs"][:, 0, 0].tolist(), [2, 0, 1, 2, 0, 1, 2, 0, 1])
        self.assertEqual(np.flatnonzero(arrays["terminated"]).tolist(), [0, 3, 6])

    def test_an_actor_writes_its_own_columns_only(self):
        arrays, jobs = self.jobs(num_actors=3, num_envs=2, length=4)
        fields = ("obs", "reward", "logp", "value", "adv", "ret")
        for name in fields:
            arrays[name][:] = 77.0
        self.built(jobs[1]).sample(0)
        for name in fields:
            with self.subTest(name):
                self.assertTrue((arrays[name][:, [0, 1, 4, 5]] == 77.0).all())
                self.assertFalse((arrays[name][:, 2:4] == 77.0).any())
        self.assertEqual(arrays["progress"].tolist(), [0, 3, 0])

    def test_the_environment_gets_the_clipped_action_and_the_buffer_keeps_the_raw_one(self):  # O-12
        arrays, actor = self.actor("Echo", num_envs=4, length=64)
        actor.sample(0)
        act = arrays["act"][..., 0]
        self.assertGreater(np.abs(act).max(), 1.5)
        np.testing.assert_array_equal(arrays["reward"], act.clip(-1, 1))
        # All parameters are 0: mean 0, log_std 0.
        np.testing.assert_allclose(arrays["logp"], -0.5 * act**2 - 0.5 * math.log(2 * math.pi), atol=1e-6)

    def test_action_noise_is_named_by_seed_rank_actor_and_round(self):
        def actions(round_index=0, actor_id=0, **changes):
            arrays, jobs = self.jobs("Echo", num_actors=2, length=16, seed=changes.pop("seed", 1))
            self.built(dataclasses.replace(jobs[actor_id], **changes)).sample(round_index)
            return arrays["act"][:, actor_id, 0].tolist()

        drawn = [actions(), actions(round_index=1), actions(actor_id=1), actions(rank=1), actions(seed=2)]
        for i, one in enumerate(drawn):
            for other in drawn[:i]:
                self.assertFalse(set(one) & set(other))
        self.assertEqual(actions(), drawn[0])

    def test_a_restart_is_not_seeded_again(self):  # O-43
        arrays, actor = self.actor("Dice", length=64, num_envs=2, env_kwargs={"length": 5})
        actor.sample(0)
        self.assertEqual(len(np.unique(arrays["obs"])), arrays["obs"].size)

    def test_a_reward_of_any_numeric_type_counts(self):  # O-65
        for kind in ("array", "int", "float32", "bool"):
            with self.subTest(kind):
                arrays, actor = self.actor("RewardType", num_envs=2, env_kwargs={"kind": kind})
                actor.sample(0)
                np.testing.assert_array_equal(arrays["reward"], np.ones((8, 2)))

    def test_a_reward_that_is_no_number_is_refused_by_name(self):
        _, actor = self.actor("RewardType", num_envs=2, env_kwargs={"kind": "none"})
        with self.assertRaisesRegex(ValueError, "environment 0 .*reward.*None"):
            actor.sample(0)

    def test_a_value_that_is_not_finite_is_named_with_its_environment_and_step(self):  # O-21, O-22
        for how, what in (("nan_obs", "observation"), ("inf_reward", "reward"), ("nan_reward", "reward")):
            for settings in ({}, {"normalize_obs": True, "normalize_reward": True}):
                with self.subTest(how, **settings):
                    env_kwargs = {"how": how, "at": 6, "number": 2}
                    _, actor = self.actor("Misbehaving", num_envs=4, env_kwargs=env_kwargs, **settings)
                    with self.assertRaises(ValueError) as caught:
                        actor.sample(0)
                    for part in ("environment 2", "step 6", what):
                        self.assertIn(part, str(caught.exception))

    def failure(self, name, *, break_it=lambda arrays: None, **options):
        """What a rollout says that meets a value which is not finite."""
        arrays, actor = self.actor(name, **options)
        break_it(arrays)
        with self.assertRaises(NonFiniteError) as caught:
            actor.sample(0)
        return str(caught.exception), caught.exception.where

    def test_a_state_that_is_not_finite_is_named_by_its_joint(self):
        with self.assertLogs(level="WARNING"):  # MuJoCo's own
            words, where = self.failure(
                "tests.long.mujoco_environments:BrokenState-v0", num_envs=2, env_kwargs={"at": 6}
            )
        expected = "the simulation state of environment 0 is nan in step 6 of the rollout: qpos[2] (rooty.angle)"
        self.assertEqual(words, f"{expected}; seen in the observation, column 1")
        self.assertEqual((where["stage"], where["step"]), ("simulation state", 6))

    def test_a_published_parameter_that_is_not_finite_is_named_and_not_the_action(self):
        def break_it(arrays):
            arrays["parameters"][0] = np.nan

        words, where = self.failure("Echo", hidden_sizes=(8,), break_it=break_it)
        self.assertEqual((words, where), ("the parameter actor.0.weight[0, 0] is nan, as it was published", None))

    def test_bodies_that_overlap_at_the_first_reset_are_told_once(self):
        _, actor = self.actor("tests.long.mujoco_environments:Sunk-v0")
        self.assertRegex(actor.sample(0).overlap, "overlap by 0.* m after a reset")
        self.assertEqual(actor.sample(1).overlap, "")

    def test_another_environment_than_the_learner_s_is_refused(self):
        _, (job,) = self.jobs()
        with self.assertRaisesRegex(
            ValueError, "environment 0 of rank 0 differs from the first one built: obs_size is 1 and not 5"
        ):
            Actor(dataclasses.replace(job, env=dataclasses.replace(job.env, obs_size=5)))


class AdvantageTest(ActorTestCase):
    """Whole rollouts with V(s) = s."""

    def advantages(self, rollouts, *, length, gamma, gae_lambda, **env_kwargs):
        arrays, jobs = self.jobs("Script", length=length, gamma=gamma, gae_lambda=gae_lambda, env_kwargs=env_kwargs)
        arrays["parameters"][:] = fixtures.linear_critic(jobs[0].network)
        actor = self.built(jobs[0])
        for round_index in range(rollouts):
            actor.sample(round_index)
        return arrays

    def test_a_step_truncated_at_the_end_of_the_rollout_bootstraps_from_its_own_final_observation(self):  # O-04
        arrays = self.advantages(
            2,
            length=2,
            gamma=0.5,
            gae_lambda=1.0,
            rewards=[9, 9, 1, 1],
            obs=[0, 0, 0, 2],
            reset_obs=100,
            trunc_at=3,
        )
        self.assertEqual(arrays["value"][:, 0].tolist(), [0, 0, 100])
        self.assertEqual(arrays["final_value"][1, 0], 2)
        self.assertEqual(arrays["adv"][:, 0].tolist(), [2, 2])
        self.assertEqual(arrays["ret"][:, 0].tolist(), [2, 2])

    def test_truncation_and_termination_inside_a_rollout(self):  # O-01 to O-03
        script = {"rewards": [1, 1, 1], "obs": [0.5, 2, 0.5], "reset_obs": 0.5}
        for ends, expected in (
            ({"term_at": 1}, [1.31, 0.5, 0.95]),
            ({"trunc_at": 1}, [2.606, 2.3, 0.95]),
            ({"term_at": 1, "trunc_at": 1}, [1.31, 0.5, 0.95]),
        ):
            with self.subTest(**ends):
                arrays = self.advantages(1, length=3, gamma=0.9, gae_lambda=0.8, **script, **ends)
                np.testing.assert_allclose(arrays["adv"][:, 0], expected, atol=1e-5)
                np.testing.assert_allclose(arrays["ret"][:, 0], np.array(expected) + 0.5, atol=1e-5)

    def test_a_rollout_that_ends_in_mid_episode_bootstraps_from_the_next_observation(self):  # O-05
        arrays = self.advantages(
            1, length=2, gamma=0.5, gae_lambda=1.0, rewards=[1, 1], obs=[0, 10], reset_obs=0, term_at=9
        )
        self.assertEqual(arrays["adv"][:, 0].tolist(), [4, 6])

    def test_rewards_are_scaled_and_held_within_10_for_the_advantages(self):
        for scale, expected in ((0.5, 1.5), (5.0, 10.0)):
            arrays, jobs = self.jobs(
                "Script",
                length=1,
                num_envs=2,
                gamma=0.0,
                normalize_reward=True,
                env_kwargs={"rewards": [3.0], "obs": [0], "reset_obs": 0, "term_at": 0},
            )
            arrays["reward_scale"][0] = scale
            self.built(jobs[0]).sample(0)
            self.assertEqual(arrays["adv"][0].tolist(), [expected] * 2)
            self.assertEqual(arrays["reward"][0].tolist(), [3.0] * 2)


class FrozenStatisticsTest(ActorTestCase):
    def sampled(self, mean, var, count, length=16):
        arrays, jobs = self.jobs("Count", length=length, normalize_obs=True)
        arrays["parameters"][:] = fixtures.linear_critic(jobs[0].network)
        arrays["obs_mean"][:], arrays["obs_var"][:], arrays["obs_count"][:] = mean, var, count
        actor = self.built(jobs[0])
        actor.sample(0)
        return arrays, actor

    def test_every_step_of_a_rollout_is_normalised_with_the_published_state(self):
        arrays, actor = self.sampled(2.0, 4.0, 50.0)
        np.testing.assert_allclose(arrays["value"][:, 0], [(t - 2) / 2 for t in range(17)], rtol=1e-6, atol=1e-7)
        actor.sample(1)
        np.testing.assert_allclose(arrays["value"][:, 0], [(t - 2) / 2 for t in range(16, 33)][:7] + [10.0] * 10)
        published = [arrays[name][0] for name in ("obs_mean", "obs_var", "obs_count")]
        self.assertEqual(published, [2.0, 4.0, 50.0])

    def test_before_any_statistics_observations_pass_through_but_for_the_clip(self):
        arrays, _ = self.sampled(0.0, 1.0, 0.0)
        np.testing.assert_allclose(arrays["value"][:, 0], [min(t, 10) for t in range(17)], rtol=1e-6)

    def test_observations_are_stored_raw(self):
        arrays, _ = self.sampled(2.0, 4.0, 50.0)
        self.assertEqual(arrays["obs"][:, 0, 0].tolist(), list(range(17)))


class OutsideTest(ActorTestCase):
    def test_a_value_far_outside_its_space_is_reported_once_and_kept(self):  # H-a
        arrays, actor = self.actor("tests.support.brought:brought/Counter-v0", length=4)
        found = [actor.sample(index).outside for index in range(4)]
        text = "column 0 of an observation is 6, its space says 0 .. 5"
        self.assertEqual(found, ["", text, "", ""])  # steps 1-4 and 5-8
        self.assertEqual(arrays["obs"][:, 0, 0].tolist(), [12, 13, 14, 15, 16])


class SaveTest(ActorTestCase):
    FIELDS = ("obs", "act", "reward", "terminated", "truncated", "logp", "value", "adv", "ret")
    CLOCK = ("sample_seconds", "annotate_seconds", "state")

    def sampled(self, actor, arrays, round_index):
        stats = actor.sample(round_index)
        report = {name: repr(value) for name, value in vars(stats).items() if name not in self.CLOCK}
        return {name: arrays[name].copy() for name in self.FIELDS}, report, stats.state

    def test_a_state_that_a_checkpoint_would_not_give_back_is_not_saved_whoever_gives_it(self):  # N-09
        options = {"env_backend": "tests.envs.test_build:OwnBatchEnv", "env_kwargs": {"state": "walk"}}
        _, (job,) = self.jobs("own-v0", **options)
        self.assertRegex(job.env.unsaved, r"own-v0: save\(\)\['x'\]\[0\] is an array of <U4.* its state is not saved")
        self.assertIsNone(self.built(job).save()["env"])
        careless = dataclasses.replace(
            job, env=dataclasses.replace(job.env, unsaved="")
        )  # as if it had been plain when it was tried
        with self.assertRaisesRegex(EnvError, r"own-v0: save\(\)\['x'\]\[0\] is an array of <U4"):
            self.built(careless).save()

    def test_a_restored_actor_goes_on_to_the_last_bit(self):
        for name in ("CartPole-v1", "Pendulum-v1", "InvertedPendulum-v5"):
            with self.subTest(name):
                options = {"num_envs": 3, "length": 20, "normalize_obs": True, "normalize_reward": True}
                arrays, (job,) = self.jobs(name, hidden_sizes=(8,), **options)
                arrays["parameters"][:] = initial_parameters(job.network, np.random.default_rng(0), -1.0)
                first = self.built(job)
                first.sample(0)
                *_, state = self.sampled(first, arrays, 1)
                expected = [self.sampled(first, arrays, round_index)[:2] for round_index in (2, 3)]
                second = self.built(job)
                second.restore(state)
                for round_index, (fields, report) in zip((2, 3), expected, strict=True):
                    found_fields, found_report, _ = self.sampled(second, arrays, round_index)
                    self.assertEqual(found_report, report)
                    for field in self.FIELDS:
                        np.testing.assert_array_equal(found_fields[field], fields[field], err_msg=field)

    def test_a_saved_state_does_not_change_with_the_actor(self):
        arrays, actor = self.actor("CartPole-v1", length=5)
        *_, state = self.sampled(actor, arrays, 0)
        before = repr(state)
        actor.sample(1)
        self.assertEqual(repr(state), before)

    def test_open_episodes_are_carried_on(self):
        _, (job,) = self.jobs(length=8, env_kwargs={"length": 20})
        first, second = self.built(job), self.built(job)
        first.sample(0)
        second.restore(first.sample(1).state)
        stats = second.sample(2)
        self.assertEqual((stats.episode_returns, stats.episode_len_sum), ([20.0], 20))

    def observed(self, actor, arrays, round_index=2):
        """What a rollout observes: the environment's own numbers and those of NumPy's global generator."""
        actor.sample(round_index)
        return arrays["obs"][:, :, 0].tolist(), arrays["obs"][:, :, 1].tolist()

    def test_global_generators_go_on_too(self):
        arrays, (job,) = self.jobs("Dice", length=8, num_envs=2)
        first, second = self.built(job), self.built(job)
        first.sample(0)
        state = first.sample(1).state
        expected = self.observed(first, arrays)
        second.restore(state)
        self.assertEqual(self.observed(second, arrays), expected)

    def test_new_episodes_and_generators_of_other_processes_get_streams_of_their_round(self):
        arrays, (job,) = self.jobs("ForgetfulDice", length=8, num_envs=2)
        actor, found = self.built(job), []
        found.append(self.observed(actor, arrays, 0))
        for num_rounds in (2, 3, 2):
            again = self.built(job)
            again.restore({"env": None, "generators": None, "num_rounds": num_rounds})
            found.append(self.observed(again, arrays, num_rounds))
        self.assertEqual(found[3], found[1])  # the same round repeats its stream
        for column in (0, 1):
            draws = [{number for row in one[column] for number in row} for one in found[:3]]
            self.assertFalse(draws[0] & draws[1] or draws[1] & draws[2] or draws[0] & draws[2])

    def test_environments_that_cannot_be_saved_start_new_episodes(self):
        arrays, (job,) = self.jobs("Forgetful", length=8, env_kwargs={"length": 20})
        first, second = self.built(job), self.built(job)
        first.sample(0)
        state = first.sample(1).state
        self.assertIsNone(state["env"])
        second.restore(state)
        self.assertEqual([second.sample(i).episode_returns for i in (2, 3, 4)], [[], [], [20.0]])
        self.assertEqual(arrays["obs"][0, 0, 0], 16)


class EvaluateTest(ActorTestCase):
    def test_it_shows_its_progress(self):
        arrays, actor = self.actor("Count", env_kwargs={"length": 30})
        actor.sample(0)
        actor.evaluate([1, 2])
        self.assertEqual(arrays["progress"].tolist(), [30])

    def test_it_leaves_the_rollouts_as_they_were(self):  # O-28
        def rollouts(has_evaluations):
            options = {"num_envs": 2, "env_kwargs": {"shift": 100.0, "shift_from": 2}, "normalize_obs": True}
            arrays, actor = self.actor("Dice", **options)
            rows = []
            for round_index in range(3):
                moments = actor.sample(round_index).obs_rms_moments[0]
                rows.append((arrays["obs"][..., 0].tolist(), moments["mean"][0], moments["var"][0]))
                if has_evaluations:
                    episodes = actor.evaluate([1, 2, 3])
                    self.assertEqual([episode.episode_return for episode in episodes], [5.0] * 3)
            return rows

        self.assertEqual(rollouts(True), rollouts(False))

    def lent(self, name, num_rounds, **options):
        """Observations [rounds][T + 1, K] with an evaluation after each round in the environments that train; notes."""
        arrays, (job,) = self.jobs(name, **options)
        notes, rows = [], []
        actor = Actor(dataclasses.replace(job, num_eval_instances=0), notes.append)
        self.addCleanup(actor.close)
        for round_index in range(num_rounds):
            actor.sample(round_index)
            rows.append(arrays["obs"][..., 0].tolist())
            self.assertEqual([episode.length for episode in actor.evaluate([1, 2, 3])], [20] * 3)
        return rows, notes

    def test_an_evaluation_in_lent_environments_lets_training_continue_where_it_was(self):  # N-02
        for num_envs in (1, 2, EVAL_BLOCK + 2):
            rows, notes = self.lent("Count", 3, num_envs=num_envs, env_kwargs={"length": 20})
            expected = [[float(step % 20)] * num_envs for step in range(25)]
            self.assertEqual(rows, [expected[:9], expected[8:17], expected[16:25]])
            self.assertRegex(
                notes[0], r"^evaluations run in .* \(max_env_instances leaves none\); .* continue afterwards$"
            )
            self.assertEqual(len(notes), 1)

    def test_lent_environments_that_cannot_be_saved_start_new_episodes(self):
        rows, notes = self.lent("Forgetful", 2, env_kwargs={"length": 20})
        self.assertEqual(rows, [[[float(step)] for step in range(9)]] * 2)
        self.assertIn("start again afterwards", notes[0])

    def test_episodes_are_the_same_in_lent_environments(self):
        arrays, (job,) = self.jobs("Pendulum-v1", num_envs=2, hidden_sizes=(8,))
        arrays["parameters"][:] = initial_parameters(job.network, np.random.default_rng(0), 0.0)
        own = self.built(job).evaluate([5, 6, 7])
        self.assertEqual(self.built(dataclasses.replace(job, num_eval_instances=0)).evaluate([5, 6, 7]), own)

    def test_it_uses_the_published_parameters_and_statistics(self):
        arrays, (job,) = self.jobs("Echo", env_kwargs={"length": 3}, normalize_obs=True)
        job.network.trunk("actor")[-1].view(arrays["parameters"])[0, 0] = 1.0  # action = normalised observation
        arrays["obs_var"][:], arrays["obs_count"][:] = 16.0, 5.0
        actor = self.built(job)
        # observations 0, 1, 2 become 0, 1/4, 1/2; then 0, 1/8, 1/4
        self.assertAlmostEqual(actor.evaluate([1])[0].episode_return, 0.75, places=6)
        arrays["obs_var"][:] = 64.0
        self.assertAlmostEqual(actor.evaluate([1])[0].episode_return, 0.375, places=6)

    def test_the_same_seeds_give_the_same_episodes_each_time(self):
        arrays, (job,) = self.jobs("Pendulum-v1", hidden_sizes=(8,))
        arrays["parameters"][:] = initial_parameters(job.network, np.random.default_rng(0), 0.0)
        actor = self.built(job)
        first = actor.evaluate([5, 6])
        actor.sample(0)
        self.assertEqual(actor.evaluate([5, 6]), first)
        self.assertNotEqual(first[0].episode_return, first[1].episode_return)


if __name__ == "__main__":
    unittest.main()
