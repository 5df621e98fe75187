"""Recordings: what is recorded, how two of them are compared, and what no environment may return."""

import unittest
from contextlib import closing

import numpy as np

from ddp_ppo.check.trial import (
    Report,
    StageError,
    call,
    difference,
    random_actions,
    record,
    repeat,
    require_equal,
    reset,
)
from ddp_ppo.envs.build import make_batch_env
from ddp_ppo.protocols import EnvSpec
from tests.support.fixtures import Watched

SPEC = EnvSpec("Box-v0", 1, "box", 3, (-1.0, -np.inf, 0.5), (1.0, np.inf, np.inf))
CHOICES = EnvSpec("Choices-v0", 1, "discrete", 3)


def count(num_envs=1, **env_kwargs):
    """Environments that observe their step number and end after `length` steps."""
    return closing(make_batch_env("tests.support.fixtures:Count-v0", num_envs, env_kwargs=env_kwargs))


class RecordTest(unittest.TestCase):
    def test_a_recording_holds_what_a_policy_sees_and_what_each_step_led_to(self):
        with count(length=2) as env:
            path = record(env, reset(env, [0]), np.zeros((3, 1), np.int64))
        self.assertEqual(path.obs[:, 0, 0].tolist(), [0, 1, 0, 1])
        self.assertEqual(path.reached[:, 0, 0].tolist(), [1, 2, 1])
        self.assertEqual(path.ended[:, 0].tolist(), [False, True, False])
        self.assertEqual(path.reward[:, 0].tolist(), [1, 1, 1])

    def test_parts_join_to_the_whole(self):
        with count(length=4) as env:
            whole = record(env, reset(env, [0]), np.zeros((6, 1), np.int64))
            first = record(env, reset(env, [0]), np.zeros((3, 1), np.int64))
            joined = type(first).joined([first, record(env, first.obs[-1], np.zeros((3, 1), np.int64))])
        self.assertEqual(difference(whole, joined), (0.0, ""))

    def test_what_is_not_finite_is_named_with_step_and_environment(self):
        for kwargs, words in (
            ({"how": "nan_obs"}, "observation of environment 0 is nan after step 4, column 0"),
            ({"how": "inf_reward"}, "reward of environment 0 is inf after step 4"),
        ):
            arguments = {"at": 4, "number": Watched.num_built, **kwargs}
            with closing(make_batch_env("tests.support.fixtures:Misbehaving-v0", 1, env_kwargs=arguments)) as env:
                obs = reset(env, [0])
                with self.assertRaisesRegex(StageError, words):
                    record(env, obs, np.zeros((9, 1), np.int64))

    def test_an_exception_is_named_with_the_line_that_raised(self):
        with self.assertRaisesRegex(StageError, r"step 3: ZeroDivisionError: .*test_trial.py:\d+"):
            call("step 3", lambda: 1 // 0)


class DifferenceTest(unittest.TestCase):
    def path(self, num_steps=5, **env_kwargs):
        with count(2, **env_kwargs) as env:
            return record(env, reset(env, [0, 1]), np.zeros((num_steps, 2), np.int64))

    def test_equal_recordings_differ_by_0(self):
        self.assertEqual(difference(self.path(length=3), self.path(length=3)), (0.0, ""))

    def test_the_largest_difference_and_the_place_of_the_first_are_found(self):
        one = self.path()
        other = one._replace(obs=one.obs.copy(), reward=one.reward.copy())
        other.reward[1, 0] += 0.25
        other.obs[4, 1] += 3.0
        self.assertEqual(difference(one, other), (3.0, "step 2"))
        other.obs[0] += 1.0
        self.assertEqual(difference(one, other)[1], "the reset")

    def test_other_ends_differ_without_bound(self):
        self.assertEqual(difference(self.path(length=3), self.path(length=4)), (np.inf, "step 3"))

    def test_rounding_is_a_note_and_more_a_fault(self):
        one = self.path()
        for size, notes, faults in ((0.0, 0, 0), (1e-6, 1, 0), (1e-3, 0, 1)):
            report = Report()
            other = one._replace(reward=one.reward + size)
            self.assertEqual(require_equal(report, "again", (one, other), "it differs"), not faults)
            self.assertEqual((len(report.notes), len(report.faults)), (notes, faults))


class ActionTest(unittest.TestCase):
    def test_random_actions_have_a_value_for_each_step_and_environment(self):
        self.assertEqual(random_actions(SPEC, 500, 2).shape, (500, 2, 3))
        self.assertEqual(random_actions(CHOICES, 50, 2).shape, (50, 2))

    def test_an_action_is_repeated_in_every_step_and_environment(self):
        self.assertEqual(repeat(np.array([0.0, 0.5]), 4, 2).shape, (4, 2, 2))
        self.assertEqual(repeat(np.array(0), 4, 2).tolist(), [[0, 0]] * 4)


if __name__ == "__main__":
    unittest.main()
