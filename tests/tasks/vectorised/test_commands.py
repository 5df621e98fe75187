"""Commands: limits, neutral ones, when they change, schedules and progress."""

import unittest

import numpy as np

from ddp_ppo.tasks.vectorised.commands import CommandState
from ddp_ppo.tasks.vectorised.design import Commands
from ddp_ppo.tasks.vectorised.streams import Streams


def commands(num_envs, **fields):
    """Commands a in [-1, 2] and b in [0, 4] at 10 steps per second, freshly drawn; and their streams."""
    limits = {"columns": ("a", "b"), "low": (-1.0, 0.0), "high": (2.0, 4.0), "neutral_probability": 0.0, **fields}
    state, streams = CommandState(Commands(**limits), num_envs, step_seconds=0.1), Streams(num_envs)
    streams.seed(range(num_envs))
    state.draw(np.arange(num_envs, dtype=np.int32), streams, 1.0)
    return state, streams


class CommandStateTest(unittest.TestCase):
    def test_values_fill_their_limits(self):
        state, _ = commands(2000)
        for column, low, high in ((0, -1.0, 2.0), (1, 0.0, 4.0)):
            values = state.value[:, column]
            self.assertTrue((low <= values.min() < low + 0.02) and (high - 0.02 < values.max() <= high))

    def test_limits_widen_with_progress(self):
        state, streams = commands(2000, first_fraction=0.5)
        state.draw(np.arange(2000, dtype=np.int32), streams, 0.5)  # 0.5 + 0.5 * 0.5 of the limits
        self.assertAlmostEqual(state.value[:, 1].max(), 3.0, delta=0.02)
        self.assertAlmostEqual(state.value[:, 0].min(), -0.75, delta=0.02)

    def test_some_commands_are_neutral_in_all_values(self):
        state, _ = commands(2000, neutral_probability=0.25)
        neutral = (state.value == 0.0).all(axis=1)
        self.assertAlmostEqual(neutral.mean(), 0.25, delta=0.05)
        self.assertTrue((state.value[~neutral] != 0.0).all())

    def test_a_command_stays_for_the_time_that_was_drawn(self):
        state, streams = commands(50, interval_seconds=(0.5, 1.0))
        self.assertEqual((state.wait.min(), state.wait.max()), (5, 10))
        first, wait = state.value.copy(), state.wait.copy()
        for step in range(1, 11):
            state.advance(np.full(50, step), streams, 1.0)
            changed = (state.value != first).any(axis=1)
            np.testing.assert_array_equal(changed, wait <= step)

    def test_a_schedule_is_followed_from_the_episode_s_start_and_again(self):
        state, streams = commands(3, schedule=((0.2, 1.0, 0.0), (0.3, 0.0, 2.0)))
        self.assertEqual(state.value.tolist(), [[1.0, 0.0]] * 3)
        state.advance(np.array([1, 2, 5]), streams, 1.0)
        self.assertEqual(state.value.tolist(), [[1.0, 0.0], [0.0, 2.0], [1.0, 0.0]])


if __name__ == "__main__":
    unittest.main()
