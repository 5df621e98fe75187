"""Continuous actions: limits, what stands in for infinite ones, and what is read from a file."""

import unittest

import numpy as np

from ddp_ppo.actions.box import BoxAction, GaussianHead
from ddp_ppo.maths.distributions import prepare_action

INF = np.inf
BOX = BoxAction((-1.0, -INF, 0.5), (1.0, INF, INF))


class LimitsTest(unittest.TestCase):
    def test_the_environment_gets_what_prepare_action_says(self):  # O-12
        act = np.float32([[-3.0, 1e9, 0.0], [0.25, -1e9, 7.0]])
        expected = prepare_action(act, [-1.0, -INF, 0.5], [1.0, INF, INF])[1]
        self.assertEqual(expected.tolist(), [[-1.0, 1e9, 0.5], [0.25, -1e9, 7.0]])
        np.testing.assert_array_equal(BOX.to_env(act), expected)
        np.testing.assert_array_equal(BOX.fixed_rows(2)(act), expected)

    def test_an_infinite_limit_is_replaced_by_a_near_one_to_draw_from(self):
        low, high = BOX.drawn_limits()
        self.assertEqual((low.tolist(), high.tolist()), ([-1.0, -1.0, 0.5], [1.0, 1.0, 1.5]))

    def test_random_actions_lie_within_the_limits_and_reach_all_of_them(self):
        actions = BOX.random(np.random.default_rng(0), 500, 2)
        self.assertEqual((actions.shape, actions.dtype), ((500, 2, 3), np.float32))
        low, high = BOX.drawn_limits()
        self.assertTrue(((actions >= low) & (actions <= high)).all())
        self.assertTrue((np.ptp(actions, axis=(0, 1)) > 0.9 * (high - low)).all())

    def test_the_neutral_action_is_the_one_nearest_to_0(self):
        self.assertEqual(BOX.neutral().tolist(), [0.0, 0.0, 0.5])

    def test_one_dimension_is_tried_a_little_and_then_at_its_limits(self):
        probes = BOX.probes(0, small=0.1)
        self.assertEqual(
            [probe.act.tolist() for probe in probes], [[np.float32(0.2), 0, 0.5], [1, 0, 0.5], [-1, 0, 0.5]]
        )
        self.assertEqual([probe.name for probe in probes], ["0.2", "1", "-1"])


class ReadTest(unittest.TestCase):
    def test_values_outside_the_limits_are_clipped_and_told(self):
        act, notes = BOX.read(np.array([[0.0, 0.0, 1.0], [2.0, 0.0, 0.0]]))
        self.assertEqual(act.tolist(), [[0.0, 0.0, 1.0], [1.0, 0.0, 0.5]])
        self.assertEqual(len(notes), 1)
        self.assertIn("actions of 1 of 2 steps", notes[0])
        self.assertIn("action[0] of step 2, 2, became 1", notes[0])

    def test_another_number_of_dimensions_is_refused(self):
        with self.assertRaisesRegex(ValueError, r"needs 3 finite number\(s\) for each step, has shape \(4, 2\)"):
            BOX.read(np.zeros((4, 2)))


class HeadTest(unittest.TestCase):
    def test_each_dimension_has_a_log_std_and_the_mode_is_the_mean(self):
        head = GaussianHead(3)
        self.assertEqual((head.num_outputs, head.num_log_std, head.act_shape, head.act_dtype), (3, 3, (3,), "float32"))
        mean = np.float32([[0.5, 2.0, -3.0]])
        self.assertIs(head.mode(mean), mean)

    def test_samples_have_the_mean_and_the_spread_that_were_asked_for(self):
        head, size = GaussianHead(2), 100_000
        sampler, act = head.sampler(1, size), np.empty((size, 2), np.float32)
        sampler.begin(np.random.default_rng(1), np.log(np.float32([0.5, 2.0])))
        sampler.sample(0, np.broadcast_to(np.float32([1.0, -1.0]), (size, 2)), act)
        np.testing.assert_allclose(act.mean(0), [1.0, -1.0], atol=0.03)
        np.testing.assert_allclose(act.std(0), [0.5, 2.0], rtol=0.01)


class SeriesTest(unittest.TestCase):
    def test_a_unit_that_begins_with_a_number_is_a_factor(self):
        act = np.zeros((4, 3), np.float32)
        series = BOX.series(act, ["a", "b", "c"], ["120 N m", "rad", ""])
        self.assertEqual(
            [(one.title, one.unit) for one in series], [("a", "times 120 N m"), ("b", "rad"), ("c", "value")]
        )


if __name__ == "__main__":
    unittest.main()
