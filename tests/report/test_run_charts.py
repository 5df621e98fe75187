"""Which charts a run has, and what is in them."""

import unittest

from ddp_ppo.config.settings import Config
from ddp_ppo.report.charts import chart_html
from ddp_ppo.report.run_charts import (
    health_charts,
    learning_charts,
    machine_charts,
    other_charts,
    time_charts,
    unchanged,
)
from ddp_ppo.runs.reading import read_run
from tests.support.process import FolderTestCase
from tests.support.runs import write_run

CONFIG = Config(num_actors=2, envs_per_actor=2, rollout_length=16, solved_return=100.0, target_kl=0.02)
METRICS = {
    "rollout/episode_return_mean": [None, 10.0, 50.0, 90.0],
    "eval/return_mean": [None, 20.0, None, 80.0],
    "eval/return_std": [None, 1.0, None, 2.0],
    "reward/forward": [0.0, 0.5, 1.0, 1.5],
    "reward/ctrl": [-0.1, -0.1, -0.1, -0.1],
    "train/approx_kl": [0.01, 0.02, 0.3, 0.01],
    "rollout/policy_lag": [0.0, 0.0, 0.0, 0.0],
    "of/tomorrow": [1.0, 2.0, 3.0, 4.0],
    "time/sample_seconds": [0.75, 0.5, 0.5, 0.0],
    "time/train_seconds": [0.25, 0.5, 1.5, 2.0],
}
EVENT = {"time": "t", "round": 3, "event": "anomaly", "rule": "kl_jump", "seen": "KL 0.3", "advice": "less"}


class RunChartsTest(FolderTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_read = read_run(write_run(cls.folder / "run", CONFIG, METRICS, events=[EVENT]))

    def charts(self, kind):
        return {chart.title: chart for chart in kind(self.run_read)}

    def test_returns_stand_at_the_steps_where_they_were_known(self):
        chart = self.charts(learning_charts)["Return"]
        training, evaluation = chart.series
        self.assertEqual((training.x, training.y), ([128.0, 192.0, 256.0], [10.0, 50.0, 90.0]))
        self.assertEqual((evaluation.x, evaluation.y), ([128.0, 256.0], [20.0, 80.0]))
        self.assertEqual((evaluation.low, evaluation.high), ([19.0, 78.0], [21.0, 82.0]))
        self.assertEqual(chart.marks, [(100.0, "solved_return 100")])

    def test_terms_of_the_reward_share_a_chart(self):
        (chart,) = (chart for title, chart in self.charts(learning_charts).items() if title.startswith("Terms"))
        self.assertEqual([series.label for series in chart.series], ["forward", "ctrl"])

    def test_an_anomaly_is_a_moment_of_the_health_charts(self):
        chart = self.charts(health_charts)["KL divergence"]
        self.assertEqual((chart.moments, chart.marks), ([192.0], [(0.02, "target_kl 0.02")]))

    def test_the_parts_of_a_round_are_shares_of_it(self):
        sample, _, _, train, *_ = self.charts(time_charts)["Parts of a round, %"].series
        self.assertEqual((sample.label, train.label), ("sample", "train"))
        self.assertEqual(sample.y, [75.0, 50.0, 25.0, 0.0])
        self.assertEqual(train.y, [25.0, 50.0, 75.0, 100.0])

    def test_memory_of_learners_and_actors_shares_a_chart(self):
        metrics = {"resource/learner_memory_mib": [300.0, 310.0], "resource/actor_memory_mib": [90.0, 95.0]}
        self.run_read = read_run(write_run(self.folder / "memory", CONFIG, metrics))
        (chart,) = self.charts(machine_charts).values()
        series = [(one.label, one.y) for one in chart.series]
        self.assertEqual(series, [("learners", [300.0, 310.0]), ("actors", [90.0, 95.0])])

    def test_every_other_metric_that_changes_has_a_chart_and_the_rest_a_line(self):
        self.assertEqual(list(self.charts(other_charts)), ["of/tomorrow"])
        self.assertIn("rollout/policy_lag 0", unchanged(self.run_read))

    def test_only_metrics_with_a_value_are_drawn(self):
        kinds = (learning_charts, health_charts, time_charts, other_charts)
        drawn = [chart.title for kind in kinds for chart in kind(self.run_read) if chart_html(chart)]
        terms = "Terms of the reward, mean of a step"
        health = ["KL divergence", "Value loss", "Policy loss"]
        self.assertEqual(drawn, ["Return", terms, *health, "Parts of a round, %", "of/tomorrow"])

    def test_a_long_run_has_as_many_points_as_can_be_seen(self):
        metrics = {name: [1.0] * 5000 for name in ("time/sample_seconds", "time/train_seconds")}
        self.run_read = read_run(write_run(self.folder / "long", CONFIG, metrics))
        series = self.charts(time_charts)["Parts of a round, %"].series
        self.assertEqual({len(one.x) for one in series}, {120})
        self.assertEqual(series[0].x[-1], 64.0 * 5000)


if __name__ == "__main__":
    unittest.main()
