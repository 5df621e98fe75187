"""Each rule: one event where its case is planted, at the intervals of the packaged configurations; else silence."""

import csv
import math
import unittest
from pathlib import Path

from ddp_ppo.maths.distributions import LOG_STD_MIN
from ddp_ppo.runs.anomalies import Watch
from ddp_ppo.runs.anomaly_rules import RULES
from tests.support.runs import HEALTHY, SETTLED

ROUNDS, EVAL_INTERVAL, EPISODE_INTERVAL = 489, 100, 8  # of half_cheetah.yaml: 2,048 of 1,000,000 steps, 16 episodes
RECORDED = Path(__file__).resolve().parents[1] / "support" / "healthy"
HEALTHY_RUNS = {
    "half_cheetah": {"time_limit": 1000, "standard": 4800.0},
    "cartpole": {"time_limit": 500, "standard": 475.0},
    "hopper": {"time_limit": 1000, "standard": 3800.0},
    "humanoid": {"time_limit": 1000},
}


def events(rows, watch=None):
    """The rules that speak over these rounds (changes of a healthy one), in their order."""
    watch = watch or Watch()
    return [event.rule for changes in rows for event in watch.update(HEALTHY | changes)]


def after_healthy(rows):
    """The rules that speak over these rounds after a settled healthy run."""
    watch = Watch()
    assert not events([{}] * SETTLED, watch)
    return events(rows, watch)


def planted(change, *, rounds=ROUNDS, eval_interval=EVAL_INTERVAL, **facts):
    """The rules that speak over a run; `change(done)` is what differs when this part of it is done.

    A score that the change gives is reported every `eval_interval` rounds, a return where episodes end.
    """
    rows = []
    for number in range(1, rounds + 1):
        row = {"rollout/episodes": 16.0, **change(number / rounds)}
        if number % EPISODE_INTERVAL:
            row |= {"rollout/episodes": 0.0}
            row |= {name: math.nan for name in HEALTHY if name.startswith("rollout/episode_")}
            row["rollout/terminated_fraction"] = math.nan
        if number % eval_interval and number < rounds:
            row["eval/return_mean"] = math.nan
        rows.append(row)
    return events(rows, Watch(**facts))


class RuleTest(unittest.TestCase):
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

    def test_a_huge_kl_is_told_before_anything_is_usual(self):
        self.assertEqual(events([{}] * 9 + [{"train/approx_kl": 5.0}]), ["kl_jump"])

    def test_value_loss_jump_is_told_at_once(self):
        self.assertEqual(after_healthy([{"train/value_loss": 20.0}]), ["value_loss_jump"])

    def test_a_rare_failure_costs_no_more_than_the_first_ones_did(self):
        # CartPole without reward scaling: 47 once after 500-step episodes, as much as in the first rounds.
        losses = [60.0] * 5 + [0.001] * 60 + [47.0, 22.0, 37.0] + [0.001] * 60
        self.assertEqual(events([{"train/value_loss": loss} for loss in losses]), [])

    def test_lasting_faults_are_told_once(self):
        cases = {
            "poor_critic": {"train/explained_variance": -1.5},
            "clip_fraction": {"train/clip_fraction": 0.8},
            "narrow_policy": {"train/action_std": math.exp(LOG_STD_MIN)},
            "short_episodes": {"rollout/episode_length_mean": 2.0},
            "throughput_drop": {"time/steps_per_second": 500.0},
            "high_value_loss": {"train/value_loss": 15.0},
        }
        for rule, fault in cases.items():
            with self.subTest(rule):
                found = after_healthy([fault] * 24)
                self.assertEqual([one for one in found if one != "value_loss_jump"], [rule])

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

    def test_evaluation_far_below_training_is_told(self):
        evaluation = {"eval/return_mean": 20.0}
        self.assertEqual(after_healthy([evaluation, {}, evaluation, evaluation]), ["replay_gap"])

    def test_negative_returns_are_compared_the_right_way_round(self):
        trained = {"rollout/episode_return_mean": -100.0}
        self.assertEqual(events([trained | {"eval/return_mean": -60.0}] * 30), [])
        self.assertEqual(events([trained | {"eval/return_mean": -300.0}] * 30), ["replay_gap"])


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


class ShippedIntervalTest(unittest.TestCase):
    """Cases planted at the intervals of half_cheetah.yaml: 5 evaluations, ends of episodes in every 8th round."""

    def test_evaluations_far_below_training_are_an_event_once(self):
        self.assertEqual(planted(lambda done: {"eval/return_mean": 20.0}), ["replay_gap"])

    def test_a_low_evaluation_within_the_spread_of_its_episodes_is_silent(self):
        self.assertEqual(planted(lambda done: {"eval/return_mean": 40.0, "eval/return_std": 70.0}), [])

    def test_training_that_rises_past_flat_evaluations_is_an_event_once(self):
        change = {"flat": lambda done: 60.0, "5 % lower each time": lambda done: 220.0 * 0.95 ** (5 * done)}
        for name, score in change.items():
            with self.subTest(name):

                def both(done, score=score):
                    return {"rollout/episode_return_mean": 10.0 + 200.0 * done, "eval/return_mean": score(done)}

                found = planted(both)
                self.assertEqual([rule for rule in found if rule != "replay_gap"], ["reward_without_progress"])

    def test_a_solved_task_whose_noise_fades_is_silent(self):
        def cartpole(done):
            return {"rollout/episode_return_mean": 10.0 + 480.0 * done, "eval/return_mean": 500.0}

        self.assertEqual(planted(cartpole), [])
        self.assertEqual(planted(lambda done: cartpole(done) | {"eval/return_mean": 475.0 - done}, standard=470.0), [])

    def test_a_term_that_stays_flat_or_falls_slowly_while_the_return_rises_is_an_event(self):
        for name, term in {"flat": lambda done: 0.05, "falls slowly": lambda done: 0.05 - 0.01 * done}.items():
            with self.subTest(name):

                def both(done, term=term):
                    terms = {"reward/progress": term(done), "reward/style": done}
                    return terms | {"rollout/episode_return_mean": 10.0 + 200.0 * done}

                self.assertEqual(planted(both), ["fallen_term"])

    def test_a_bonus_for_living_may_stay_flat(self):
        def ant(done):
            terms = {"reward/forward": 3.0 * done, "reward/survive": 1.0, "reward/ctrl": -0.1}
            return terms | {"rollout/episode_return_mean": 900.0 + 3000.0 * done}

        self.assertEqual(planted(ant), [])

    def test_a_term_that_lasts_longer_in_longer_episodes_rises(self):
        def walker(done):
            lengths = {"rollout/episode_length_mean": 20.0 + 900.0 * done}
            return lengths | {"reward/forward": 0.5, "rollout/episode_return_mean": 10.0 + 450.0 * done}

        self.assertEqual(planted(walker, time_limit=1000), [])

    def test_episodes_of_12_of_1000_steps_for_ever_are_an_event_once(self):
        short = {"rollout/episode_length_mean": 12.0, "rollout/terminated_fraction": 1.0, "rollout/episodes": 160.0}
        self.assertEqual(events([short] * 200, Watch(time_limit=1000)), ["lasting_shortness"])
        self.assertEqual(events([short] * 200, Watch(time_limit=50)), [])
        self.assertEqual(events([short] * 200), [])

    def test_episodes_that_grow_or_that_have_become_short_are_silent(self):
        def rows(first, last):
            lengths = [first + (last - first) * i / 200 for i in range(200)]
            return [{"rollout/episode_length_mean": length, "rollout/episodes": 100.0} for length in lengths]

        self.assertEqual(events(rows(12.0, 200.0), Watch(time_limit=1000)), [])
        self.assertEqual(events(rows(400.0, 12.0), Watch(time_limit=1000)), [])

    def test_a_drop_of_the_speed_shows_where_every_round_is_evaluated(self):
        def rows(seconds, count):
            times = {"time/round_seconds": seconds + 0.6, "time/record_seconds": 0.6, "time/sample_seconds": seconds}
            return [times | {"time/steps_per_second": 2048 / (seconds + 0.6), "eval/return_mean": 100.0}] * count

        watch = Watch()
        self.assertEqual(events(rows(0.2, SETTLED), watch), [])
        (event,) = [event for row in rows(1.0, 20) for event in watch.update(HEALTHY | row)]
        self.assertEqual(event.rule, "throughput_drop")
        self.assertEqual(event.seen, "2,048 steps/s without evaluations, usually 10,240, sample 0.2 -> 1 s")


class NothingMetTest(unittest.TestCase):
    """Runs in which there is nothing to learn from."""

    def test_returns_that_are_all_0_are_an_event_whatever_ends_the_episodes(self):
        for ended in (0.0, 1.0):
            nothing = {"rollout/episode_return_mean": 0.0, "rollout/terminated_fraction": ended}
            self.assertEqual(planted(lambda done, row=nothing: row), ["nothing_met"])

    def test_one_reward_is_enough_for_silence(self):
        rows = [{"rollout/episode_return_mean": 0.0, "rollout/episodes": 16.0}] * 5
        rows += [{"rollout/episode_return_mean": 0.1}, *[{"rollout/episode_return_mean": 0.0}] * 100]
        self.assertEqual(events(rows), [])

    def test_the_same_cost_up_to_every_time_limit_is_an_event(self):  # MountainCar-v0 before it ever reaches the top
        cost = {"rollout/episode_return_mean": -200.0, "rollout/terminated_fraction": 0.0}
        self.assertEqual(planted(lambda done: cost), ["nothing_met"])
        self.assertEqual(planted(lambda done: cost | {"rollout/terminated_fraction": 1.0}), [])

    def test_a_pendulum_that_always_stands_has_met_its_reward(self):
        stands = {"rollout/episode_return_mean": 1000.0, "rollout/terminated_fraction": 0.0, "eval/return_mean": 1000.0}
        self.assertEqual(planted(lambda done: stands), [])

    def test_costs_that_fade_to_nothing_are_a_standstill(self):  # MountainCarContinuous-v0
        def fading(last):
            def change(done):
                ended = {"rollout/terminated_fraction": 0.0, "eval/return_mean": -0.01}
                return ended | {"rollout/episode_return_mean": -25.0 * (last / 25.0) ** done}

            return change

        self.assertEqual(planted(fading(0.01)), ["standstill"])
        self.assertEqual(planted(fading(0.5), standard=90.0), ["standstill"])
        self.assertEqual(planted(lambda done: fading(2.0)(done) | {"eval/return_mean": -2.0}), [])  # Reacher


class HealthyRunTest(unittest.TestCase):
    """Runs of packaged configurations: their metrics.csv, with the columns that rules read."""

    def test_recorded_runs_are_silent(self):
        for name, facts in HEALTHY_RUNS.items():
            watch = Watch(**facts)
            with self.subTest(name), (RECORDED / f"{name}.csv").open(newline="") as file:
                rows = [
                    {name: float(cell) if cell else math.nan for name, cell in row.items()}
                    for row in csv.DictReader(file)
                ]
                self.assertGreater(len(rows), 100)
                self.assertEqual([event for row in rows for event in watch.update(row)], [])

    def test_every_rule_has_a_name_of_its_own_and_advice(self):
        self.assertEqual(len({rule.name for rule in RULES}), len(RULES))
        self.assertTrue(all(rule.advice for rule in RULES))


if __name__ == "__main__":
    unittest.main()
