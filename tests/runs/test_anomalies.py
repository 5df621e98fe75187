"""Rules over metrics: silent over a healthy run, one event where something begins, again only after it has ended."""

import math
import unittest

from ddp_ppo.maths.distributions import LOG_STD_MIN
from ddp_ppo.runs.anomalies import Watch
from tests.support.runs import HEALTHY, SETTLED


def events(rows, watch=None):
    """The rules that speak over these rounds (changes of a healthy one), in their order."""
    watch = watch or Watch()
    return [event.rule for changes in rows for event in watch.update(HEALTHY | changes)]


def after_healthy(rows):
    """The rules that speak over these rounds after a settled healthy run."""
    watch = Watch()
    assert not events([{}] * SETTLED, watch)
    return events(rows, watch)


class WatchTest(unittest.TestCase):
    def test_healthy_run_with_noise_and_evaluations_is_silent(self):
        rows = []
        for i in range(300):
            wave = math.sin(i)
            row = {
                "train/approx_kl": 0.012 + 0.008 * wave,
                "train/value_loss": 0.5 * math.exp(wave),
                "train/explained_variance": 0.5 * wave,
                "rollout/episode_return_mean": i + 20.0 * wave,
                "time/steps_per_second": 5000.0 + 2000.0 * wave,
            }
            if i % 10 == 9:
                row["eval/return_mean"] = i + 25.0 * wave
                row["time/steps_per_second"] = 1000.0  # an evaluation takes its time
            rows.append(row)
        self.assertEqual(events(rows), [])

    def test_rounds_without_finished_episodes_are_silent(self):  # O-10
        nothing = {
            name: math.nan
            for name in ("rollout/episode_return_mean", "rollout/episode_length_mean", "eval/return_mean")
        }
        self.assertEqual(events([nothing | {"rollout/episodes": 0.0}] * 100), [])

    def test_policy_without_standard_deviation_is_silent(self):
        self.assertEqual(events([{"train/action_std": math.nan}] * 100), [])

    def test_first_rounds_are_no_measure_of_the_usual(self):
        self.assertEqual(events([{"train/value_loss": 0.001}, {"train/value_loss": 50.0}]), [])

    def test_kl_jump_is_told_at_once(self):
        self.assertEqual(after_healthy([{"train/approx_kl": 0.4}]), ["kl_jump"])

    def test_value_loss_jump_is_told_at_once(self):
        self.assertEqual(after_healthy([{"train/value_loss": 20.0}]), ["value_loss_jump"])

    def test_lasting_faults_are_told_once(self):
        cases = {
            "poor_critic": {"train/explained_variance": -1.5},
            "clip_fraction": {"train/clip_fraction": 0.8},
            "narrow_policy": {"train/action_std": math.exp(LOG_STD_MIN)},
            "short_episodes": {"rollout/episode_length_mean": 2.0},
            "throughput_drop": {"time/steps_per_second": 500.0},
        }
        for rule, fault in cases.items():
            with self.subTest(rule):
                self.assertEqual(after_healthy([fault] * 24), [rule])

    def test_critic_of_a_solved_task_has_nothing_to_explain(self):
        solved = {"train/explained_variance": -6.0, "train/value_loss": 0.002}
        self.assertEqual(after_healthy([solved] * 100), [])

    def test_rounds_that_begin_to_train_are_no_drop_of_the_speed(self):
        rows = [{"train/gradient_steps": 0.0}] * SETTLED
        rows += [{"train/gradient_steps": 1.0, "time/steps_per_second": 500.0}] * 100
        self.assertEqual(events(rows), [])

    def test_metrics_that_a_learner_does_not_have_are_silent(self):
        row = {name: value for name, value in HEALTHY.items() if not name.startswith("train/")}
        watch = Watch()
        self.assertEqual([event for _ in range(2 * SETTLED) for event in watch.update(row)], [])

    def test_single_odd_round_is_no_lasting_fault(self):
        odd = [{"train/clip_fraction": 0.8}, {"train/action_std": 0.001}, {"time/steps_per_second": 500.0}]
        self.assertEqual(after_healthy([change for fault in odd for change in ({}, fault, {})]), [])

    def test_fault_that_has_ended_may_be_told_again(self):
        fault = {"train/clip_fraction": 0.8}
        self.assertEqual(after_healthy([*[fault] * 10, *[{}] * 10, *[fault] * 10]), ["clip_fraction"] * 2)
        self.assertEqual(after_healthy([*[fault] * 10, *[{}] * 3, *[fault] * 10]), ["clip_fraction"])

    def test_evaluation_far_below_training_is_told(self):
        evaluation = {"eval/return_mean": 20.0}
        self.assertEqual(after_healthy([evaluation, {}, evaluation, evaluation]), ["replay_gap"])

    def test_negative_returns_are_compared_the_right_way_round(self):
        trained = {"rollout/episode_return_mean": -100.0}
        self.assertEqual(events([trained | {"eval/return_mean": -60.0}] * 30), [])
        self.assertEqual(events([trained | {"eval/return_mean": -300.0}] * 30), ["replay_gap"])

    def test_training_that_rises_while_evaluations_fall_is_told(self):
        rows = []
        for i in range(30):
            rows.append({"rollout/episode_return_mean": 100.0 + 5.0 * i})
            if i % 10 == 9:
                rows[-1]["eval/return_mean"] = 400.0 - 8.0 * i
        self.assertEqual([rule for rule in events(rows) if rule != "replay_gap"], ["reward_without_progress"])

    def test_event_says_what_was_seen_and_what_to_check(self):
        watch = Watch()
        events([{}] * SETTLED, watch)
        (event,) = watch.update(HEALTHY | {"train/approx_kl": 0.4})
        self.assertIn("0.4", event.seen)
        self.assertIn("0.01", event.seen)
        self.assertTrue(event.advice)


class RewardTermsTest(unittest.TestCase):
    def rows(self, forward, survive, returns):
        """50 rounds in which terms and return go from the first value to the second, then 25 that stay there."""
        shares = [min(1.0, i / 50) for i in range(75)]

        def between(pair, share):
            return pair[0] + (pair[1] - pair[0]) * share

        names = ("reward/forward", "reward/survive", "rollout/episode_return_mean")
        return [
            {name: between(pair, share) for name, pair in zip(names, (forward, survive, returns), strict=True)}
            for share in shares
        ]

    def test_a_term_that_halves_while_the_return_rises_is_told(self):
        # The hopper that has learnt to stand still: longer episodes, no way forward.
        self.assertEqual(events(self.rows((0.8, 0.0), (1.0, 1.0), (60.0, 300.0))), ["fallen_term"])

    def test_terms_that_rise_or_returns_that_do_not_are_silent(self):
        self.assertEqual(events(self.rows((0.8, 1.6), (1.0, 1.0), (60.0, 300.0))), [])
        self.assertEqual(events(self.rows((0.8, 0.0), (1.0, 1.0), (300.0, 300.0))), [])

    def test_costs_and_terms_that_hardly_count_are_silent(self):
        self.assertEqual(events(self.rows((-0.1, -0.6), (1.0, 1.0), (60.0, 300.0))), [])
        self.assertEqual(events(self.rows((0.05, 0.0), (1.0, 1.0), (60.0, 300.0))), [])

    def test_the_event_names_the_term_and_both_changes(self):
        watch = Watch()
        seen = [
            event for row in self.rows((0.8, 0.0), (1.0, 1.0), (60.0, 300.0)) for event in watch.update(HEALTHY | row)
        ]
        self.assertRegex(seen[0].seen, r"^reward/forward 0\.\d+ -> 0\.\d+, training return \d+\.\d -> \d+\.\d$")


class IdleActorsTest(unittest.TestCase):
    def test_actors_that_wait_long_for_the_slowest_are_reported_after_30_rounds(self):
        waiting = {"time/idle_seconds": 0.02}
        self.assertEqual(after_healthy([waiting] * 29), [])
        self.assertEqual(after_healthy([waiting] * 60), ["idle_actors"])


if __name__ == "__main__":
    unittest.main()
