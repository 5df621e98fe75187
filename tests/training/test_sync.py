"""What learners agree on after a round: merged moments and metrics, and that they are equal; two real processes."""

import math
import unittest

import numpy as np

from ddp_ppo.maths.moments import compute_batch_moments, empty_rms_state
from ddp_ppo.training.sync import Statistics, normalizer_metrics, reward_metrics, term_names
from tests.support.fixtures import report
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

    def test_each_learner_s_own_number_of_epochs_shows(self):  # C14
        metrics = self.both("metrics")
        self.assertEqual(metrics["train/epochs"], 5.5)  # (300 * 6 + 100 * 4) / 400
        self.assertEqual((metrics["train/epochs_min"], metrics["train/epochs_max"]), (4.0, 6.0))

    def test_a_stop_of_one_rank_is_a_stop_of_all(self):  # C14
        self.assertEqual(self.both("stop"), 15)

    def test_between_syncs_learners_agree_on_their_mean_and_go_on_as_they_are(self):  # C12
        self.assertEqual([rank["unmoved"] for rank in self.ranks], [True, True])
        to_mean, to_own = self.ranks[0]["agreed"]
        self.assertLess(to_mean, 1e-7)
        self.assertGreater(to_own, 1e-3)
        self.assertEqual(self.ranks[1]["agreed"][1], 0.0)  # rank 0 alone needs it
        largest, exp_avg, step = self.ranks[0]["state"]
        self.assertLess(largest, 1e-7)
        self.assertEqual((exp_avg, step), (0.5, 8.0))  # 7.5, rounded to the even neighbour
        self.assertNotIn("state", self.ranks[1])

    def test_learners_are_averaged_after_every_interval_and_after_the_last_round(self):  # C12
        apart, together = [2.0, True], [1.0, False]
        self.assertEqual(self.both("rounds"), [apart, apart, together, apart, together])

    def test_a_resumed_run_knows_whether_learners_differ(self):
        self.assertEqual(self.both("resumed"), [True, False])

    def test_a_resumed_run_knows_the_terms_of_the_rounds_before(self):
        self.assertEqual(self.both("terms_after_a_resume"), {"reward/a": 0.0, "reward/b": 0.0})

    def test_a_term_of_the_reward_is_known_in_the_round_in_which_any_rank_first_meets_it(self):
        found = [terms for terms, _ in self.ranks[0]["terms"]]
        expected = [{}, {"reward/b": 2.0}, {"reward/b": 4.0}, {"reward/a": 0.5, "reward/b": 0.0}]
        expected.append({"reward/a": 0.0, "reward/b": 0.0})
        self.assertEqual(repr(found), repr(expected))
        self.assertEqual(repr(self.ranks[0]["terms"]), repr(self.ranks[1]["terms"]))

    def test_names_are_told_only_in_rounds_that_bring_new_ones(self):
        # One message; with new names a second one, after these were gathered and shared.
        for rank in self.ranks:
            self.assertEqual([calls for _, calls in rank["terms"]], [1, 4, 1, 4, 1])

    def test_parameters_and_moments_become_the_mean(self):  # C12
        self.assertEqual(self.both("apart"), 2.0)
        self.assertLess(self.both("average"), 1e-7)
        self.assertGreater(self.both("moved"), 1e-3)
        self.assertEqual(self.both("moments")[0], 0.5)
        self.assertAlmostEqual(self.both("moments")[1], 0.2, places=6)
        self.assertEqual(self.both("step"), 8.0)  # 7.5, rounded to the even neighbour
        self.assertEqual(self.both("together"), 1.0)


class NormalizerMetricsTest(unittest.TestCase):
    def test_they_are_the_extremes_of_the_columns_and_the_factor_of_rewards(self):
        obs = compute_batch_moments(np.array([[1.0, -7.0], [3.0, -7.0]]))  # means 2 and -7, std 1 and 0
        returns = compute_batch_moments(np.array([[-2.0], [2.0]]))  # std 2
        found = normalizer_metrics(Statistics(obs, returns))
        self.assertAlmostEqual(found.pop("normalizer/reward_scale"), 0.5, places=8)
        expected = {"obs_count": 2.0, "largest_obs_mean": 7.0, "obs_std_min": 0.0, "obs_std_max": 1.0}
        self.assertEqual(found, {f"normalizer/{name}": value for name, value in expected.items()})

    def test_what_is_not_normalised_has_none(self):
        self.assertEqual(normalizer_metrics(Statistics(empty_rms_state(2), empty_rms_state(1))), {})


class RewardMetricsTest(unittest.TestCase):
    REPORTS = (
        report(reward_terms={"reward_ctrl": -1.0, "reward_forward": 2.0}),
        report(reward_terms={"reward_ctrl": -3.0}),
    )

    def test_the_names_are_those_of_any_actor_in_alphabetical_order(self):
        self.assertEqual(term_names(self.REPORTS), ["reward_ctrl", "reward_forward"])
        self.assertEqual(term_names([report()]), [])

    def test_a_term_is_the_mean_of_all_actors_and_0_for_one_that_has_not_met_it(self):  # N-03
        found = reward_metrics(self.REPORTS, ["reward_ctrl", "reward_forward", "reward_there"])
        self.assertEqual(found, {"reward/ctrl": -2.0, "reward/forward": 1.0, "reward/there": 0.0})

    def test_what_is_not_finite_is_nothing_to_report(self):
        terms = [{"reward_a": math.inf, "reward_b": 1.0}, {"reward_b": math.nan}]
        found = reward_metrics([report(reward_terms=each) for each in terms], ["reward_a", "reward_b"])
        self.assertEqual(found["reward/b"], 1.0)
        self.assertTrue(math.isnan(found["reward/a"]))


if __name__ == "__main__":
    unittest.main()
