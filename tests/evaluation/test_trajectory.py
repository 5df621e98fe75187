"""Recorded episodes are those of an evaluation, come back from their file, and replays are compared to the bit."""

import tempfile
import unittest
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from ddp_ppo.config.settings import ConfigError
from ddp_ppo.envs.build import make_batch_env
from ddp_ppo.envs.columns import Column
from ddp_ppo.evaluation.trajectory import deviation, read_actions, record_block, recorded_env_id
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.policies.numpy_policy import NumpyPolicy
from ddp_ppo.sampling.drive import Player
from ddp_ppo.sampling.episodes import EVAL_BLOCK, blocks_of, run_block
from tests.support.fixtures import random_parameters

SEEDS = list(range(100, 107))  # two blocks


def policy_for(env):
    """A random policy for a block of environments."""
    network = NetworkSpec.for_env(env.spec, (8,), "tanh")
    policy = NumpyPolicy(network, env.spec, EVAL_BLOCK, 1)
    policy.load(random_parameters(network), None)
    return policy


def recorded(env_id, seeds=(1,), *, num_steps=50, actions=None, **env_kwargs):
    """Trajectories of a random policy."""
    env = make_batch_env(env_id, EVAL_BLOCK, env_kwargs=env_kwargs)
    limits = {"num_steps": num_steps, "actions": actions}
    episodes = [one for block in blocks_of(seeds) for one in record_block(env, policy_for(env), block, **limits)]
    env.close()
    return episodes


class Still:
    """A policy whose action is always -0."""

    state_size = 0

    def mode(self, obs, state):
        return np.full((len(obs), 1), -0.0, np.float32)


def columns(size):
    return [Column(f"c{number}") for number in range(size)]


class RecordTest(unittest.TestCase):
    def test_episodes_are_those_of_an_evaluation_to_the_last_bit(self):
        for env_id in ("CartPole-v1", "Hopper-v5"):
            env = make_batch_env(env_id, EVAL_BLOCK)
            expected = [
                episode
                for block in blocks_of(SEEDS)
                for episode in run_block(env, partial(Player, policy_for(env), EVAL_BLOCK), block)
            ]
            env.close()
            found = recorded(env_id, SEEDS, num_steps=1000)
            self.assertEqual([(one.seed, one.episode_return, one.length, one.end) for one in found], expected)

    def test_every_step_has_its_observation_and_the_last_one_is_the_episode_s_own(self):
        (one,) = recorded("tests.support.fixtures:Count-v0", length=3)
        self.assertEqual(one.obs[:, 0].tolist(), [0, 1, 2, 3])  # a reset would show 0 again
        self.assertEqual(one.reward.tolist(), [1, 1, 1])
        self.assertEqual((one.length, one.end, one.episode_return), (3, "terminated", 3.0))
        self.assertEqual((one.act.shape, one.act.dtype), ((3,), np.int64))

    def test_a_time_limit_truncates_and_a_number_of_steps_cuts(self):
        (limited,) = recorded("tests.support.fixtures:Limited-v0")
        (cut,) = recorded("tests.support.fixtures:Count-v0", num_steps=4)
        self.assertEqual([(one.length, one.end) for one in (limited, cut)], [(5, "truncated"), (4, "cut")])

    def test_the_parts_of_the_reward_add_up(self):
        (one,) = recorded("HalfCheetah-v5", num_steps=20)
        self.assertEqual(set(one.terms), {"reward_forward", "reward_ctrl"})
        np.testing.assert_allclose(sum(one.terms.values()), one.reward, rtol=1e-12)

    def test_given_actions_are_what_the_environment_gets(self):
        actions = np.linspace(-1, 1, 7, dtype=np.float32)[:, None]
        (one,) = recorded("tests.support.fixtures:Echo-v0", actions=actions)
        self.assertEqual(one.reward.tolist(), actions[:, 0].tolist())
        self.assertEqual(one.act.tolist(), actions.tolist())
        self.assertTrue((one.policy_act != one.act).any())
        self.assertEqual((one.length, one.end), (7, "cut"))

    def test_no_action_is_changed_on_its_way_not_even_the_sign_of_0(self):
        env = make_batch_env("tests.support.fixtures:Echo-v0", EVAL_BLOCK)
        for actions in (None, np.float32([[-0.0]])):
            (one,) = record_block(env, Still(), [1], num_steps=1, actions=actions)
            self.assertTrue(np.signbit(one.act).all() and np.signbit(one.reward).all())
        env.close()

    def test_choices_are_the_environment_s_own_values(self):
        (one,) = recorded("tests.support.drawing:Dial-v0", (7,), num_steps=30)
        self.assertEqual(one.reward.tolist(), one.act.tolist())
        self.assertEqual(one.policy_act.tolist(), one.act.tolist())
        self.assertLessEqual(set(one.act.tolist()), {1, 2, 3})
        (again,) = recorded("tests.support.drawing:Dial-v0", (7,), actions=np.array([3, 1, 2]))
        self.assertEqual((again.reward.tolist(), again.act.tolist()), ([3, 1, 2], [3, 1, 2]))


class ReplayTest(unittest.TestCase):
    def setUp(self):
        (self.one,) = recorded("HalfCheetah-v5", num_steps=20)

    def replayed(self, act):
        return recorded("HalfCheetah-v5", actions=act)[0]

    def compared(self, replayed, original):
        return deviation(replayed, original, columns(17))

    def test_the_same_actions_give_the_same_bits(self):
        found = self.compared(self.replayed(self.one.act), self.one)
        self.assertEqual(found.words, "equal to the recording to the last bit, over 20 steps")
        self.assertTrue(found.is_equal)
        self.assertEqual((found.obs.shape, found.reward.shape), ((21,), (20,)))
        self.assertFalse(found.obs.any() or found.reward.any() or found.total.any())

    def test_the_first_step_that_differs_is_named_with_its_column(self):
        act = self.one.act.copy()
        act[11] *= 0.5
        found = self.compared(self.replayed(act), self.one)
        self.assertFalse(found.obs[:12].any())  # the observation after the step differs first
        self.assertTrue(found.obs[12])
        self.assertRegex(
            found.words, r"\Adiffers from step 12 on \(c\d+ is .*, was .*\); the return by .* in 20 steps\Z"
        )
        self.assertFalse(found.is_equal)

    def test_deviations_count_in_standard_deviations_of_the_recorded_column(self):
        obs = self.one.obs.copy()
        obs[4, 3] += 2.0
        found = self.compared(self.one, replace(self.one, obs=obs))
        self.assertAlmostEqual(found.obs[4], 2.0 / obs[:, 3].std(dtype=np.float64), places=6)
        self.assertIn("step 4 on (c3 is", found.words)

    def test_a_reward_that_alone_differs_is_named(self):
        reward = self.one.reward.copy()
        reward[6] += 0.25
        found = self.compared(self.one, replace(self.one, reward=reward))
        self.assertIn("differs from step 7 on (the reward is", found.words)
        self.assertFalse(found.is_equal)
        self.assertAlmostEqual(found.total[-1], -0.25)

    def test_episodes_of_different_length_are_compared_as_far_as_both_go(self):
        found = self.compared(self.replayed(self.one.act[:5]), self.one)
        self.assertEqual(found.words, "equal to the recording to the last bit, over the first 5 of its 20 steps")
        self.assertTrue(found.is_equal)

    def test_an_end_of_which_the_recording_knows_nothing_is_told(self):
        acts = np.zeros((6, 1), np.float32)
        by_length = {
            length: recorded("tests.support.fixtures:Echo-v0", actions=acts, length=length)[0] for length in (3, 6, 9)
        }
        changed = replace(by_length[6], end="truncated")
        off = replace(by_length[3], reward=by_length[3].reward + 1.0)
        for replayed, original, words in (
            (by_length[3], by_length[6], "equal for 3 steps, then it ended (terminated), the recording went on to 6"),
            (by_length[3], by_length[9], "equal for 3 steps, then it ended (terminated), the recording went on to 6"),
            (by_length[6], by_length[9], "equal for 6 steps, then it ended (terminated), the recording could go on"),
            (by_length[9], by_length[6], "equal for 6 steps, then it could go on, the recording ended (terminated)"),
            (by_length[6], by_length[3], "equal for 3 steps, then it went on to 6, the recording ended (terminated)"),
            (
                changed,
                by_length[6],
                "equal for 6 steps, then it ended (truncated), the recording ended (terminated)",
            ),
            (
                off,
                by_length[6],
                "differs from step 1 on (the reward is 1, was 0); the return by 3 in 3 steps; "
                "it ended (terminated), the recording went on to 6",
            ),
        ):
            with self.subTest(words):
                found = deviation(replayed, original, columns(1))
                self.assertEqual((found.words, found.is_equal), (words, False))


class FileTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.box = make_batch_env("tests.support.fixtures:Echo-v0", 1).spec
        self.discrete = make_batch_env("CartPole-v1", 1).spec

    def file(self, name, content):
        path = self.folder / name
        path.write_text(content)
        return path

    def test_a_saved_trajectory_comes_back(self):
        for env_id in ("HalfCheetah-v5", "CartPole-v1"):
            (one,) = recorded(env_id, num_steps=5)
            path = self.folder / f"{env_id}.npz"
            one.save(path)
            actions, again, notes = read_actions(path, make_batch_env(env_id, 1).spec)
            self.assertEqual((actions.tolist(), notes), (one.act.tolist(), ()))
            self.assertEqual(recorded_env_id(path), env_id)
            for name in ("env_id", "seed", "end"):
                self.assertEqual(getattr(again, name), getattr(one, name))
            for name in ("obs", "act", "policy_act", "reward"):
                self.assertEqual(getattr(again, name).dtype, getattr(one, name).dtype)
                np.testing.assert_array_equal(getattr(again, name), getattr(one, name))
            self.assertEqual(list(again.terms), list(one.terms))
            for name, values in one.terms.items():
                np.testing.assert_array_equal(again.terms[name], values)

    def test_a_csv_file_has_a_row_a_step_with_or_without_names(self):
        for text in ("0.5\n-0.25\n", "push\n0.5\n\n-0.25\n"):
            actions, recording, _ = read_actions(self.file("a.csv", text), self.box)
            self.assertEqual((actions.tolist(), actions.dtype, recording), ([[0.5], [-0.25]], np.float32, None))
        choices = read_actions(self.file("b.csv", "0\n1\n1\n"), self.discrete).act
        self.assertEqual((choices.tolist(), choices.dtype), ([0, 1, 1], np.int64))
        self.assertIsNone(recorded_env_id(self.folder / "b.csv"))

    def test_an_npz_file_needs_nothing_but_actions(self):
        np.savez(self.folder / "a.npz", act=np.array([0.5, 0.25]))
        actions, recording, _ = read_actions(self.folder / "a.npz", self.box)
        self.assertEqual((actions.tolist(), recording), ([[0.5], [0.25]], None))

    def test_values_outside_the_bounds_are_clipped_and_said_to_be(self):
        found = read_actions(self.file("a.csv", "0.5\n3\n1\n-3\n"), self.box)
        self.assertEqual(found.act.tolist(), [[0.5], [1.0], [1.0], [-1.0]])
        words = "actions of 2 of 4 steps are outside the limits and were clipped: action[0] of step 2, 3, became 1"
        self.assertEqual(found.notes, (words,))
        narrow = replace(self.box, action_low=(-0.1,), action_high=(0.1,))
        self.assertEqual(read_actions(self.file("b.csv", "0.1\n-0.1\n"), narrow).notes, ())  # 0.1 is none in float32

    def test_choices_are_read_as_the_environment_s_own_values(self):
        dial = make_batch_env("tests.support.drawing:Dial-v0", 1).spec
        self.assertEqual(read_actions(self.file("a.csv", "1\n3\n"), dial).act.tolist(), [1, 3])
        for text in ("0\n1\n", "3\n4\n"):
            with self.assertRaisesRegex(ConfigError, "whole numbers from 1 to 3"):
                read_actions(self.file("b.csv", text), dial)

    def test_what_does_not_fit_is_one_line(self):
        np.savez(self.folder / "other.npz", obs=np.zeros(3))
        (self.folder / "damaged.npz").write_bytes(b"PK")
        cases = (
            (self.folder / "gone.csv", self.box, "gone.csv"),
            (self.folder / "gone.npz", self.box, "gone.npz"),
            (self.folder / "other.npz", self.box, "act"),
            (self.folder / "damaged.npz", self.box, "damaged.npz"),
            (self.file("words.csv", "a\nb\n"), self.box, "words.csv"),
            (self.file("ragged.csv", "1,2\n3\n"), self.box, "ragged.csv"),
            (self.file("wide.csv", "1,2\n3,4\n"), self.box, "1 finite number"),
            (self.file("empty.csv", ""), self.box, "1 finite number"),
            (self.file("nan.csv", "1\nnan\n"), self.box, "1 finite number"),
            (self.file("half.csv", "0.5\n"), self.discrete, "whole numbers from 0 to 1"),
            (self.file("high.csv", "2\n"), self.discrete, "whole numbers from 0 to 1"),
            (self.file("low.csv", "-1\n"), self.discrete, "whole numbers from 0 to 1"),
        )
        for path, env, words in cases:
            with self.subTest(path.name), self.assertRaises(ConfigError) as caught:
                read_actions(path, env)
            self.assertIn(words, str(caught.exception))
            self.assertTrue(str(caught.exception).startswith("--actions: "))
            self.assertNotIn("\n", str(caught.exception))

    def test_a_recording_of_another_environment_is_refused(self):
        (one,) = recorded("tests.support.fixtures:Count-v0", num_steps=5)
        one.save(self.folder / "a.npz")
        with self.assertRaisesRegex(ConfigError, "recorded in another environment: tests.support.fixtures:Count-v0"):
            read_actions(self.folder / "a.npz", self.discrete)
        twin = make_batch_env("tests.support.fixtures:Limited-v0", 1).spec  # of the same shapes
        with self.assertRaisesRegex(ConfigError, "Count-v0, not tests.support.fixtures:Limited-v0"):
            read_actions(self.folder / "a.npz", twin)
        with self.assertRaisesRegex(ConfigError, "another one when it was recorded"):
            read_actions(
                self.folder / "a.npz", replace(make_batch_env("tests.support.fixtures:Count-v0", 1).spec, obs_size=2)
            )


if __name__ == "__main__":
    unittest.main()
