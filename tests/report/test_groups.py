"""Groups, scores, curves and verdicts; the right values are worked out by hand."""

import dataclasses
import itertools
import math
import unittest

from ddp_ppo.config.settings import Config, ConfigError
from ddp_ppo.report.groups import (
    common_steps,
    curve,
    differing_settings,
    differing_versions,
    group_results,
    group_runs,
    held_back,
    partings,
    score_metric,
    training_seconds,
    verdict,
)
from ddp_ppo.runs.reading import read_run
from tests.support.process import FolderTestCase
from tests.support.runs import write_run

CONFIG = Config(env_id="CartPole-v1", num_actors=1, envs_per_actor=2, rollout_length=5)  # 10 steps a round
SCORE, TRAINING = "eval/return_mean", "rollout/episode_return_mean"


class ComparisonTest(FolderTestCase):
    def setUp(self):
        self.count = 0

    def made(self, *scores, seed=1, versions=None, name="tiny", metrics=None, **settings):
        """A run with these evaluations, one a round."""
        self.count += 1
        config = dataclasses.replace(CONFIG, seed=seed, run_name=f"r{self.count}", **settings)
        place = self.folder / f"{self.id().rpartition('.')[2]}-{self.count}"
        values = {SCORE: scores, **(metrics or {})}
        return read_run(write_run(place, config, values, versions=versions, name=name))

    def seeds(self, *scores, **settings):
        """Runs of one round, seeds 1, 2 ..."""
        return [self.made(score, seed=seed, **settings) for seed, score in enumerate(scores, 1)]


class GroupTest(ComparisonTest):
    def test_runs_that_differ_in_their_seed_only_are_one_group(self):
        (group,) = group_runs(self.seeds(1.0, 2.0, 3.0))
        self.assertEqual((group.label, len(group.runs)), ("tiny", 3))

    def test_another_setting_or_version_is_another_group_and_names_it(self):
        runs = [*self.seeds(1.0, 2.0), *self.seeds(1.0, 2.0, gamma=0.9), self.made(1.0, versions={"torch": "2.0"})]
        labels = [group.label for group in group_runs(runs)]
        self.assertEqual(
            labels, [f"tiny, gamma {g}, torch {v}" for g, v in (("0.99", "1.2.3"), ("0.9", "1.2.3"), ("0.99", "2.0"))]
        )

    def test_what_is_ignored_makes_no_group(self):
        runs = [self.made(1.0, gamma=0.9), self.made(1.0, seed=2, versions={"torch": "2.0"})]
        (group,) = group_runs(runs, ["gamma", "torch"])
        self.assertEqual(len(group.runs), 2)
        with self.assertRaisesRegex(ConfigError, "--ignore: gama is neither"):
            group_runs(runs, ["gama"])
        runs = [self.made(1.0, num_epochs=5), self.made(1.0, seed=2)]
        self.assertEqual(
            [len(group_runs(runs, [name])) for name in ("num_epochs", "ppo.num_epochs", "gamma")], [1, 1, 2]
        )

    def test_a_seed_that_ran_twice_does_not_count_twice(self):
        groups = group_runs([self.made(1.0), self.made(1.0), self.made(2.0, seed=2)])
        self.assertEqual([(group.label, len(group.runs)) for group in groups], [("tiny", 2), ("tiny (2)", 1)])

    def test_another_machine_is_no_other_group_but_is_told(self):
        versions = [{"torch": "1", "cores": cores} for cores in ("2", "8")]
        runs = [self.made(1.0, seed=seed, versions=one) for seed, one in enumerate(versions)]
        other = self.made(1.0, versions={"torch": "1", "cores": "2"}, gamma=0.9)
        groups = group_runs([*runs, other])
        self.assertEqual(len(groups), 2)
        self.assertEqual(differing_versions(groups), [("cores", ["2 / 8", "2"])])

    def test_settings_of_one_release_only_differ_from_nothing(self):
        run = self.made(1.0)
        older = dataclasses.replace(run, settings={key: run.settings[key] for key in run.settings if key != "overlap"})
        self.assertEqual(differing_settings(group_runs([run, older])), [("overlap", ["false", "-"])])


class ScoreTest(ComparisonTest):
    def test_scores_are_taken_where_the_shortest_run_stands(self):
        runs = [self.made(1.0, 2.0, 3.0, 9.0), self.made(4.0, 5.0, gamma=0.9)]
        self.assertEqual(common_steps(runs, SCORE), 20.0)
        self.assertEqual([result.scores for result in group_results(group_runs(runs))], [[2.0], [5.0]])

    def test_training_returns_stand_in_where_a_run_has_no_evaluation(self):
        runs = [self.made(1.0, metrics={TRAINING: [7.0]}), self.made(None, gamma=0.9, metrics={TRAINING: [8.0]})]
        self.assertEqual(score_metric(runs), TRAINING)
        self.assertEqual([result.scores for result in group_results(group_runs(runs))], [[7.0], [8.0]])

    def test_the_mean_over_seeds_is_interquartile_with_an_interval(self):
        (result,) = group_results(group_runs(self.seeds(0.0, 10.0, 20.0, 1000.0)))
        self.assertEqual(result.iqm, 15.0)
        self.assertLess(result.low, 15.0)
        self.assertGreater(result.high, 15.0)
        (single,) = group_results(group_runs([self.made(1.0)]))
        self.assertTrue(math.isnan(single.low))

    def test_time_is_that_of_sampling_and_learning(self):
        run = self.made(1.0, 2.0, metrics={"time/record_seconds": [0.25, None], "time/elapsed_seconds": [1.0, 3.0]})
        self.assertEqual(training_seconds(run), [0.75, 2.75])
        self.assertEqual(group_results(group_runs([run]))[0].seconds, 2.75)


class VerdictTest(ComparisonTest):
    def of(self, first, second):
        one, other = group_results(group_runs([*self.seeds(*first), *self.seeds(*second, gamma=0.9)]))
        return verdict(one, other)

    def test_four_seeds_that_part_completely_are_better_or_worse(self):
        words = self.of([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0])
        self.assertTrue(
            words.startswith("tiny, gamma 0.9 is better than tiny, gamma 0.99: interquartile mean 6.5 ["), words
        )
        self.assertIn("with probability 1.00; equal groups part as far in 2.9% of cases", words)  # 2 of 70
        self.assertIn("is worse than", self.of([5.0, 6.0, 7.0, 8.0], [1.0, 2.0, 3.0, 4.0]))

    def test_of_three_seeds_each_no_verdict_is_given(self):
        words = self.of([1.0, 2.0, 3.0], [7.0, 8.0, 9.0])
        self.assertTrue(words.startswith("No difference between"), words)
        self.assertIn("with 3 and 3 seeds even a complete separation may be luck", words)

    def test_seeds_that_overlap_are_not_told_apart(self):
        words = self.of([1.0, 3.0, 5.0, 7.0], [2.0, 4.0, 6.0, 8.0])
        self.assertTrue(words.startswith("No difference between"), words)
        self.assertTrue(words.endswith("of cases."), words)

    def test_several_groups_share_the_five_percent(self):
        seeds = [self.seeds(*scores, gamma=gamma) for scores, gamma in (((1, 2, 3, 4), 0.9), ((5, 6, 7, 8), 0.8))]
        seeds.append(self.seeds(0, 2, 4, 6, gamma=0.7))
        first, second, third = group_results(group_runs(list(itertools.chain(*seeds))))
        self.assertAlmostEqual(second.chance, 2 * 2 / 70)  # alone 2 of 70
        self.assertGreater(third.chance, second.chance)
        words = verdict(first, second, 2)
        self.assertIn("even a complete separation may be luck. Train at least 5 seeds of each", words)  # 2 x 2 / 252


class HeldBackTest(ComparisonTest):
    def test_runs_that_go_equally_far_hold_nobody_back(self):
        self.assertEqual(list(held_back(self.seeds(1.0, 2.0), SCORE)), [])

    def test_rounds_of_another_size_may_end_a_little_later(self):
        short = self.made(*range(101))  # 1,010 steps
        long = self.made(*range(0, 1020, 10), rollout_length=50, seed=2)  # 100 a round: 1,000, 1,100 ...
        wide = self.made(*range(0, 1020, 10), rollout_length=51, seed=3)  # 102 a round: 1,020 is 1 % more
        scores = [result.scores for result in group_results(group_runs([short, long, wide]))]
        self.assertEqual(scores, [[100.0], [90.0], [90.0]])

    def test_a_short_run_is_named_with_what_it_costs(self):
        runs = [self.made(*range(20)), self.made(*range(19), seed=2), self.made(1.0, seed=3)]
        (note,) = held_back(runs, SCORE)
        place = f"{self.id().rpartition('.')[2]}"
        self.assertIn("all are compared at 10 environment steps", note)
        self.assertIn(f"not at the 200 of {place}-1", note)
        self.assertTrue(note.endswith(f"train on, or leave out, {place}-3"), note)

    def test_a_run_without_an_evaluation_is_named(self):
        runs = [self.made(1.0, metrics={TRAINING: [7.0]}), self.made(None, gamma=0.9, metrics={TRAINING: [8.0]})]
        (note,) = held_back(runs, score_metric(runs))
        self.assertRegex(note, "training returns are compared, not evaluations: [a-z_]+-2 has none")
        self.assertEqual(list(held_back(runs[1:], TRAINING)), [])  # nothing else could be compared


class CurveTest(ComparisonTest):
    def test_one_run_is_its_own_curve(self):
        (group,) = group_runs([self.made(1.0, None, 3.0)])
        series = curve(group, SCORE)
        self.assertEqual((series.x, series.y, series.low), ([10.0, 30.0], [1.0, 3.0], ()))

    def test_several_runs_are_their_mean_where_all_have_a_value(self):
        (group,) = group_runs([self.made(1.0, 3.0, 5.0), self.made(3.0, None, 9.0, seed=2)])
        series = curve(group, SCORE)
        self.assertEqual((series.x, series.y), ([10.0, 30.0], [2.0, 7.0]))
        self.assertEqual((series.low, series.high), ([1.0, 5.0], [3.0, 9.0]))

    def test_over_time_each_point_stands_at_the_mean_of_the_seconds(self):
        times = [{"time/elapsed_seconds": [1.0, 2.0]}, {"time/elapsed_seconds": [2.0, 6.0]}]
        (group,) = group_runs([self.made(1.0, 2.0, seed=seed, metrics=one) for seed, one in enumerate(times)])
        self.assertEqual(curve(group, SCORE, over_seconds=True).x, [1.5, 4.0])

    def test_a_long_curve_keeps_its_end(self):
        (group,) = group_runs([self.made(*range(200), seed=seed) for seed in (1, 2)])
        series = curve(group, SCORE)
        self.assertLessEqual(len(series.x), 60)
        self.assertEqual((series.x[-1], series.y[-1]), (2000.0, 199.0))


class PartingTest(ComparisonTest):
    def test_it_is_the_first_round_in_which_a_metric_differs(self):
        runs = [self.made(1.0, 2.0, 3.0), self.made(1.0, 2.5, 4.0, gamma=0.9)]
        (parting,) = partings(runs)
        self.assertEqual((parting.round, parting.metrics), (2, [(SCORE, 2.0, 2.5)]))

    def test_a_clock_does_not_count_and_nothing_equals_nothing(self):
        runs = [self.made(None, 2.0, metrics={"time/elapsed_seconds": [t, 2 * t]}) for t in (1.0, 7.0)]
        (parting,) = partings(runs)
        self.assertEqual((parting.round, parting.num_rounds), (None, 2))

    def test_a_value_beside_nothing_differs(self):
        (parting,) = partings([self.made(None), self.made(2.0)])
        self.assertEqual((parting.round, parting.metrics[0][2]), (1, 2.0))

    def test_other_seeds_are_not_set_side_by_side(self):
        self.assertEqual(partings(self.seeds(1.0, 2.0)), [])


if __name__ == "__main__":
    unittest.main()
