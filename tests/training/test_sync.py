"""What learners agree on after a round: merged moments and metrics, and that they are equal; two real processes."""

import math
import unittest

from ddp_ppo.training.sync import reward_metrics, term_names
from tests.support.ranks import run_two


class TwoLearnersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ranks = run_two("ranks_agree")

    def both(self, name):
        """What the ranks saw, which must be the same."""
        self.assertEqual(self.ranks[0][name], self.ranks[1][name])
        return self.ranks[0][name]

    def test_equal_learners_find_no_difference(self):
        self.assertEqual(self.both("equal"), "")

    def test_a_single_bit_that_differs_is_named_with_tensor_and_rank_on_every_rank(self):  # O-35
        for name, message in self.both("faults").items():
            with self.subTest(name):
                self.assertRegex(message, rf"\b{name}\b.*\brank 1\b")

    def test_between_syncs_only_what_has_to_be_equal_is_compared(self):  # C12
        told = {name for name, message in self.both("unsynced").items() if message}
        self.assertEqual(told, {"obs_rms_state", "return_rms_state", "learning_rate"})

    def test_moments_of_all_actors_and_learners_are_merged(self):  # O-26
        # 0,0,0,0,4 on rank 0 and 10,10,4 on rank 1
        count, mean, var = self.both("obs")
        self.assertEqual(count, 8)
        for column in range(3):
            self.assertAlmostEqual(mean[column], 3.5, places=9)
            self.assertAlmostEqual(var[column], 16.75, places=9)
        self.assertEqual(self.both("returns"), 0)

    def test_metrics_are_weighted_by_samples_and_totals_are_summed(self):  # C13
        metrics = self.both("metrics")
        self.assertEqual(metrics["a"], 2.0)  # (300 * 1 + 100 * 5) / 400
        self.assertEqual(metrics["time/transfer_seconds"], 2.0)
        self.assertEqual((metrics["buffer_size"], metrics["train/gradient_steps"]), (400.0, 12.0))
        self.assertEqual(metrics["train/own_total"], 3.0)  # a row of the learner says so
        self.assertEqual(metrics["rollout/episodes"], 3.0)
        self.assertEqual(metrics["rollout/episode_return_mean"], 20.0)
        self.assertEqual(metrics["rollout/episode_length_mean"], 5.0)
        self.assertAlmostEqual(metrics["rollout/terminated_fraction"], 1 / 3)

    def test_a_stop_of_one_rank_is_a_stop_of_all(self):  # C14
        self.assertEqual(self.both("stop"), 15)

    def test_parameters_and_moments_become_the_mean(self):  # C12
        self.assertEqual(self.both("apart"), 2.0)
        self.assertLess(self.both("average"), 1e-7)
        self.assertGreater(self.both("moved"), 1e-3)
        self.assertEqual(self.both("moments")[0], 0.5)
        self.assertAlmostEqual(self.both("moments")[1], 0.2, places=6)
        self.assertEqual(self.both("step"), 8.0)  # 7.5, rounded to the even neighbour
        self.assertEqual(self.both("together"), 1.0)


class RewardMetricsTest(unittest.TestCase):
    STATS = ({"reward_terms": {"reward_ctrl": -1.0, "reward_forward": 2.0}}, {"reward_terms": {"reward_ctrl": -3.0}})

    def test_the_names_are_those_of_any_actor_in_alphabetical_order(self):
        self.assertEqual(term_names(self.STATS), ["reward_ctrl", "reward_forward"])
        self.assertEqual(term_names([{"reward_terms": {}}]), [])

    def test_a_term_is_the_mean_of_the_actors_that_report_it(self):
        found = reward_metrics(self.STATS, ["reward_ctrl", "reward_forward"])
        self.assertEqual(found, {"reward/ctrl": -2.0, "reward/forward": 2.0})

    def test_what_nobody_reports_or_is_not_finite_is_nothing_to_report(self):
        stats = [{"reward_terms": {"reward_a": math.inf, "reward_b": 1.0}}, {"reward_terms": {"reward_b": math.nan}}]
        found = reward_metrics(stats, ["reward_a", "reward_b", "reward_c"])
        self.assertEqual(found["reward/b"], 1.0)
        self.assertTrue(math.isnan(found["reward/a"]) and math.isnan(found["reward/c"]))


if __name__ == "__main__":
    unittest.main()
