"""The stages that train, on a small environment: what they find where something was made wrong on purpose."""

import math
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from unittest import mock

from ddp_ppo.check.training import (
    check_checkpoint,
    check_evaluation,
    check_export,
    check_replay,
    check_scale_up,
    check_throughput,
    check_training,
    row_faults,
)
from ddp_ppo.check.trial import Report, SkipStage, StageError, Trial
from ddp_ppo.config.settings import Config
from ddp_ppo.export import export
from ddp_ppo.learners.ppo.metrics import PPO_METRICS
from ddp_ppo.runs.checkpoint import find_checkpoint, save_checkpoint
from ddp_ppo.runs.metric_table import STAGES
from ddp_ppo.runs.model import load_model
from ddp_ppo.training.plan import prepare

PPO_NAMES = ("approx_kl", "clip_fraction", "value_loss", "entropy", "grad_norm", "epochs")
PPO_NAMES = [f"train/{name}" for name in PPO_NAMES]
SMALL = {"num_actors": 1, "envs_per_actor": 2, "rollout_length": 32, "minibatch_size": 32, "num_epochs": 1}
SMALL |= {"hidden_sizes": (8,), "total_env_steps": 128_000}


def trial(case, env_id="tests.support.planted_faults:Point-v0", **settings):
    """A trial with a folder that lives as long as the test."""
    folder = case.enterContext(tempfile.TemporaryDirectory())
    config = Config(env_id=env_id, **(SMALL | settings))
    return Trial(prepare(config, environ={}), {}, Path(folder))


def report_of(stage, one):
    """What a stage finds."""
    report = Report()
    stage(one, report)
    return report


class RowTest(unittest.TestCase):
    ROW = {  # noqa: RUF012 - never written to
        **{"round": 1.0, "env_steps": 64.0, "buffer_size": 64.0, "rollout/episodes": 0.0},
        **{"train/learning_rate": 1e-3, "train/gradient_steps": 2.0, "train/policy_loss": -0.1},
        **{name: 1.0 for name in PPO_NAMES},
        **{f"time/{name}_seconds": 1.0 for name in ("elapsed", "idle", "round", *STAGES)},
        **{"time/steps_per_second": 1.0, "rollout/policy_lag": 0.0, "sync/distinct_parameters": 1.0},
        **{"rollout/episode_return_mean": math.nan, "eval/return_mean": math.nan, "train/action_std": math.nan},
    }

    def test_what_may_be_empty_is_no_fault(self):
        self.assertEqual(row_faults(self.ROW, PPO_METRICS), [])
        untrained = {**self.ROW, "train/gradient_steps": 0.0, "train/policy_loss": math.nan}
        self.assertEqual(row_faults(untrained, PPO_METRICS), [])

    def test_a_metric_that_is_missing_empty_or_infinite_is_named(self):
        for name, value in (("train/policy_loss", math.nan), ("eval/return_mean", math.inf), ("env_steps", math.nan)):
            self.assertEqual(
                row_faults({**self.ROW, name: value}, PPO_METRICS), [f"round 1: no finite value of {name}"]
            )
        for name in ("train/learning_rate", "time/idle_seconds"):
            row = {other: value for other, value in self.ROW.items() if other != name}
            self.assertEqual(row_faults(row, PPO_METRICS), [f"round 1: no finite value of {name}"])

    def test_what_a_learner_measures_without_a_row_must_be_finite_too(self):
        row = {**self.ROW, "train/own": math.nan}
        self.assertEqual(row_faults(row, PPO_METRICS), ["round 1: no finite value of train/own"])


class TrainingTest(unittest.TestCase):
    def test_two_rounds_pass_and_change_the_parameters(self):
        report = report_of(check_training, trial(self))
        self.assertEqual((report.faults, report.notes), ([], []))
        self.assertEqual(report.figures["rounds"], "2 of 64 transitions")
        for name in ("policy_loss", "value_loss", "entropy", "approx_kl", "grad_norm"):
            self.assertRegex(report.figures[f"train/{name}"], r"^\S+ -> \S+$")

    def test_several_learners_are_tried_with_one_and_its_share_of_the_actors(self):
        report = report_of(check_training, trial(self, num_gpus=2, num_actors=2))
        self.assertEqual((report.faults, report.figures["rounds"]), ([], "2 of 64 transitions"))

    def test_parameters_that_do_not_move_are_a_fault(self):
        report = report_of(check_training, trial(self, learning_rate=1e-30))
        self.assertRegex(report.faults[0], "no parameter has changed")

    def test_an_environment_that_fails_in_an_actor_ends_it_with_the_actor_s_words(self):
        settings = {"env_id": "tests.support.fixtures:Misbehaving-v0", "env_kwargs": {"how": "raise", "at": 20}}
        with self.assertRaisesRegex(StageError, "actor 0 .*boom-17"):
            report_of(check_training, trial(self, **settings))


class CheckpointTest(unittest.TestCase):
    def setUp(self):
        self.trial = trial(self)
        report_of(check_training, self.trial)
        self.run_folder = self.trial.folder / "config-check"

    def test_what_training_wrote_is_read_and_written_again_to_the_last_bit(self):
        report = report_of(check_checkpoint, self.trial)
        self.assertEqual(report.faults, [])
        self.assertEqual(report.figures["after"], "2 rounds, 128 environment steps")
        self.assertEqual(report.figures["written and read again"], "equal to the last bit")

    def test_a_checkpoint_of_another_moment_than_the_model_is_a_fault(self):
        path, content, _ = find_checkpoint(self.run_folder)
        content["ranks"][0]["learner"]["parameters"][3] += 1e-3
        state = {name: value for name, value in content.items() if name not in ("format", "round")}
        save_checkpoint(path.parent, 1, state, 3)
        path.unlink()
        faults = report_of(check_checkpoint, self.trial).faults
        self.assertRegex(faults[0], "is of round 1, the run had 2")
        self.assertRegex(faults[1], "parameters of the checkpoint and of the model file .* differ")

    def test_the_policy_s_actions_lead_the_same_way_again(self):
        report = report_of(check_replay, self.trial)
        self.assertEqual((report.faults, report.figures["steps"]), ([], 200))
        self.assertEqual(report.figures["replayed"], "equal to the last bit")

    def test_an_evaluation_repeats_itself_and_what_the_run_logged(self):
        report = report_of(check_evaluation, self.trial)
        self.assertEqual((report.faults, report.figures["repeated"]), ([], "equal"))
        self.assertRegex(report.figures["episodes"], r"^3 with a return of .*, 3 t")
        self.assertEqual(report.figures["standard"], "none: set solved_return to have one")

    def test_the_setting_and_the_task_s_own_figure_are_two_standards(self):
        # The same files, judged as if they were of a task with a figure of its own.
        one = replace(self.trial, plan=replace(self.trial.plan, config=self.judged(400.0)))
        report = report_of(check_evaluation, one)
        self.assertEqual(report.figures["the task's own reward_threshold"], "475")
        self.assertRegex(report.figures["standard"], "^400 not reached after 2 rounds: ")
        self.assertEqual(report.notes, ["solved_return 400 is another standard than the task's own, 475"])

    def judged(self, solved_return):
        return replace(self.trial.plan.config, env_id="CartPole-v1", solved_return=solved_return)

    def test_an_evaluation_that_is_not_the_logged_one_is_a_fault(self):
        model = load_model(self.run_folder, "current")
        other = replace(model, info={**model.info, "eval_return": model.info["eval_return"] + 1.0})
        with mock.patch("ddp_ppo.check.training.load_model", return_value=other):
            (fault,) = report_of(check_evaluation, self.trial).faults
        self.assertRegex(fault, "^seed [0-9]+: return .*, the run's own evaluation: ")

    def test_the_exported_policy_acts_as_the_policy_or_says_what_is_missing(self):
        if export.has_extra():
            report = report_of(check_export, self.trial)
            self.assertEqual(report.faults, [])
            self.assertRegex(report.figures["policy.onnx"], "largest error .*e-")
        with (
            mock.patch.object(export, "has_extra", return_value=False),
            self.assertRaisesRegex(SkipStage, r"ddp-ppo\[export\]"),
        ):
            report_of(check_export, self.trial)

    def test_the_speed_makes_a_time_of_the_whole_run(self):
        figures = report_of(check_throughput, self.trial).figures
        speed = float(figures["steps per second"].replace(",", ""))
        self.assertGreater(speed, 0)
        self.assertRegex(figures["whole run"], r"^128,000 steps in about [\d.]+ (s|min|h).*, evaluation aside")


class ScaleUpTest(unittest.TestCase):
    def test_twice_the_environments_train_as_the_arithmetic_says_and_a_wrong_one_is_found(self):
        one = trial(self)
        report = report_of(check_scale_up, one)
        self.assertEqual(report.faults, [])
        # 2 environments x 32 steps are 2 mini-batches of 32; 4 x 32 are 2 of 64
        self.assertEqual(report.figures["counted"], "128 transitions a round, 2 gradient steps per round")
        wrong = {"transitions a round": 128, "gradient steps per round": 3}
        with mock.patch("ddp_ppo.check.training.arithmetic", return_value=wrong):
            faults = report_of(check_scale_up, one).faults
        self.assertEqual(faults, ["gradient steps per round: 3 expected, 2 counted"])

    def test_another_learner_s_arithmetic_is_not_checked(self):
        one = trial(self)
        toy = Config(env_id=one.env_id, learner="tests.learners.toy:KIND", num_actors=1)
        one = replace(one, plan=replace(one.plan, config=toy))
        with self.assertRaisesRegex(SkipStage, "the arithmetic is that of learner: ppo"):
            report_of(check_scale_up, one)


class ReplayTest(unittest.TestCase):
    def test_a_step_that_is_random_is_found_by_the_replay_too(self):
        one = trial(self, "tests.support.planted_faults:RandomStep-v0")
        report_of(check_training, one)
        self.assertRegex(report_of(check_replay, one).faults[0], "the same actions lead elsewhere.* step 1")
        self.assertIn("the same policy and seeds give other episodes", report_of(check_evaluation, one).faults[0])


if __name__ == "__main__":
    unittest.main()
