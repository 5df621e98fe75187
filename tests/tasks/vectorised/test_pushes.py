"""Pushes: their size, how long they last, and when they begin."""

import unittest

import numpy as np

from ddp_ppo.tasks.vectorised.design import Pushes
from ddp_ppo.tasks.vectorised.pushes import PushState
from ddp_ppo.tasks.vectorised.streams import Streams


class PushStateTest(unittest.TestCase):
    def recorded(self, num_envs=40, num_steps=60):
        """Forces [T, K, 3] of pushes of 0.3 s every 1 to 2 s, at 10 steps per second."""
        pushes = Pushes(body="b", max_force=5.0, seconds=0.3, interval_seconds=(1.0, 2.0))
        state, streams = PushState(pushes, num_envs, step_seconds=0.1), Streams(num_envs)
        streams.seed(range(num_envs))
        state.schedule(np.arange(num_envs, dtype=np.int32), streams)
        forces = np.zeros((num_steps, num_envs, 3))
        for row in forces:
            state.advance(streams)
            row[...] = state.force
        return forces, state, streams

    def test_each_push_lasts_three_steps_and_keeps_its_force(self):
        forces, _, _ = self.recorded()
        for track in np.moveaxis(forces, 1, 0):
            acts = np.r_[0, (track != 0.0).any(axis=1), 0].astype(int)
            starts, ends = np.flatnonzero(np.diff(acts) == 1), np.flatnonzero(np.diff(acts) == -1)
            self.assertGreaterEqual(len(starts), 2)
            for start, end in zip(starts, ends, strict=True):
                if end < len(track):
                    self.assertEqual(end - start, 3)
                self.assertEqual(len(np.unique(track[start:end], axis=0)), 1)

    def test_pushes_begin_within_the_interval(self):
        forces, _, _ = self.recorded(num_steps=21)
        begins = (np.diff((forces != 0.0).any(axis=2).astype(int), axis=0) == 1).argmax(axis=0) + 1
        self.assertTrue(((begins >= 9) & (begins <= 20)).all())  # steps 10 to 20, counted from 0
        self.assertGreater(len(set(begins.tolist())), 3)

    def test_no_component_exceeds_the_largest_force(self):
        forces, _, _ = self.recorded()
        self.assertTrue(4.5 < np.abs(forces).max() <= 5.0)

    def test_a_new_episode_ends_a_push(self):
        forces, state, streams = self.recorded(num_steps=16)
        pushed = np.flatnonzero(forces[-1].any(axis=1)).astype(np.int32)
        self.assertGreater(len(pushed), 1)
        state.schedule(pushed[:1], streams)
        self.assertEqual(state.force[pushed[0]].tolist(), [0.0, 0.0, 0.0])
        np.testing.assert_array_equal(state.force[pushed[1:]], forces[-1][pushed[1:]])


if __name__ == "__main__":
    unittest.main()
