"""What the MuJoCo tasks share, against values worked out by hand."""

import math
import unittest

import gymnasium
import numpy as np

from ddp_ppo.envs.mujoco import parts
from ddp_ppo.envs.mujoco.tasks import setup_of

NAN = math.nan


class ArrayTest(unittest.TestCase):
    def test_costs_are_the_weighted_sum_of_squares_in_the_type_of_their_weight(self):
        cost = parts.squared(-0.5, np.float32)(np.array([[1.0, 2.0], [0.0, 3.0]], np.float32))
        self.assertEqual((cost.dtype, cost.tolist()), (np.float32, [-2.5, -4.5]))
        self.assertEqual(parts.squared(-0.5, np.float64)(np.ones((3, 4))).tolist(), [-2.0] * 3)

    def test_lengths_of_rows_are_to_the_last_bit_those_of_single_vectors(self):
        vectors = np.random.default_rng(0).standard_normal((100, 3))
        self.assertEqual(parts.norm(np.array([[3.0, 4.0]])).tolist(), [5.0])
        self.assertEqual(parts.norm(vectors).tolist(), [float(np.linalg.norm(vector)) for vector in vectors])

    def test_the_world_is_the_first_body_of_a_field(self):
        field = np.arange(12.0).reshape(1, 3, 4)  # one simulation, three bodies
        self.assertEqual(parts.by_body(field, has_world=True).tolist(), [list(range(12))])
        self.assertEqual(parts.by_body(field, has_world=False).tolist(), [list(range(4, 12))])

    def test_a_limited_array_follows_its_source(self):
        source = np.array([[-3.0, 0.5, 3.0]])
        limited = parts.limited(source, -1.0, 2.0)
        for factor, expected in ((1.0, [-1.0, 0.5, 2.0]), (-1.0, [2.0, -0.5, -1.0])):
            source[...] = factor * np.array([[-3.0, 0.5, 3.0]])
            limited.refresh()
            self.assertEqual(limited.array.tolist(), [expected])

    def test_several_calls_become_one_and_none_becomes_nothing(self):
        made = []
        parts.together(lambda: made.append(1), parts.nothing, lambda: made.append(2))()
        self.assertEqual(made, [1, 2])
        self.assertIs(parts.together(parts.nothing), parts.nothing)


class HealthTest(unittest.TestCase):
    def test_bounds_are_not_within_and_neither_is_nan(self):
        heights = np.array([[0.5], [1.0], [0.999], [NAN]])
        angles = np.array([[0.0, 0.0], [0.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
        healthy = parts.within((heights, angles), [(0.2, 1.0), (-2.0, 2.0)])
        healthy.refresh()
        self.assertEqual(healthy.array.tolist(), [True, False, False, False])
        heights[...], angles[...] = 0.5, 1.999
        healthy.refresh()
        self.assertEqual(healthy.array.tolist(), [True] * 4)


class StartTest(unittest.TestCase):
    def test_an_object_is_pushed_from_a_place_that_is_not_at_the_goal(self):
        env = gymnasium.make("Pusher-v5").unwrapped
        draw = parts.pusher_start(setup_of(env))
        generator = np.random.default_rng(0)
        starts = [draw(generator) for _ in range(200)]
        places = np.array([qpos[-4:-2] for qpos, _ in starts])
        self.assertGreater(np.linalg.norm(places, axis=1).min(), 0.17)
        self.assertTrue((places >= [-0.3, -0.2]).all() and (places <= [0.0, 0.2]).all())
        for qpos, qvel in starts:
            self.assertEqual((qpos[-2:].tolist(), qvel[-4:].tolist()), ([0.0, 0.0], [0.0] * 4))

    def test_a_target_to_reach_lies_in_a_disc(self):
        draw = parts.reacher_start(setup_of(gymnasium.make("Reacher-v5").unwrapped))
        generator = np.random.default_rng(0)
        distances = [np.linalg.norm(draw(generator)[0][-2:]) for _ in range(300)]
        self.assertTrue(0.15 < max(distances) < 0.2)


if __name__ == "__main__":
    unittest.main()
