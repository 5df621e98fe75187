"""Whole runs of the program, from its command line to its files."""

import json
import math
import os
import re
import shutil
import signal
import time
import unittest

import torch

from ddp_ppo.config.load import load_config
from ddp_ppo.sampling.episodes import evaluation_seeds
from tests.support.process import (
    FIXTURE,
    PROGRAMS,
    SMOKE,
    TINY,
    FolderTestCase,
    Program,
    files_in,
    read_csv,
    succeeded,
    without_times,
)
from tests.support.results import (
    differences,
    events_of,
    is_learner,
    last_checkpoint,
    load,
    numbers,
    parameters_of,
    scalars,
    tensors,
)


class SmokeTest(FolderTestCase):
    """configs/smoke.yaml: 6 rounds of 2 actors x 2 environments x 64 steps, evaluated and saved in rounds 3 and 6."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.report = cls.folder / "report.json"
        program = cls.start(SMOKE)
        cls.ended = succeeded(program)
        (cls.home,) = (path for path in (cls.work / "output").iterdir() if path.is_dir())
        cls.rows = read_csv(cls.home / "metrics.csv")

    def test_a_run_leaves_these_files_and_no_others(self):
        expected = {"config.yaml", "events.jsonl", "lock", "metrics.csv", "model.pt", "model_best.pt", "report.html"}
        expected |= {"versions.json", "metric_table.json"}
        expected |= {*(f"checkpoints/checkpoint_000000{number}.pt" for number in (3, 6))}
        found = files_in(self.home)
        (events,) = (name for name in found if name.startswith("tensorboard/events.out.tfevents."))
        self.assertEqual(found - {events}, expected)
        beside = {path.name for path in (self.work / "output").iterdir()}
        self.assertEqual(beside, {self.home.name, "model_smoke.pt", "model_smoke_best.pt"})
        self.assertEqual([path.name for path in self.work.iterdir()], ["output"])

    def test_every_file_is_readable_by_the_safe_loader(self):
        for path in self.home.rglob("*.pt"):
            with self.subTest(path.name):
                self.assertIsInstance(load(path), dict)

    def test_it_says_nothing_on_stderr_and_names_what_it_wrote(self):
        self.assertEqual(self.ended.err, "")
        last = self.ended.out[self.ended.out.index("done: 6 rounds, 1,536 environment steps") :]
        for path in (self.home, self.home.parent / "model_smoke.pt", self.home.parent / "model_smoke_best.pt"):
            self.assertIn(str(path.relative_to(self.work)), last)

    def test_there_is_one_line_for_each_round(self):
        lines = [line for line in self.ended.out.splitlines() if line.startswith("round ")]
        self.assertEqual([line.split(" | ")[0] for line in lines], [f"round {i}/6" for i in range(1, 7)])

    def test_the_effective_configuration_reads_back_to_the_same_settings(self):
        config = load_config(self.home / "config.yaml")
        self.assertEqual(config, load_config(SMOKE))
        text = (self.home / "config.yaml").read_text()
        self.assertRegex(text, r"(?m)^env_id: \"InvertedPendulum-v5\"  # .*smoke\.yaml:\d+$")
        self.assertRegex(text, r"(?m)^gamma: 0\.99  # .*base\.yaml:\d+$")
        self.assertRegex(text, r"(?m)^  adam_eps: .*  # default$")

    def test_every_row_has_the_true_number_of_samples_and_steps(self):  # C15
        self.assertEqual(numbers(self.rows, "round"), [1, 2, 3, 4, 5, 6])
        self.assertEqual(numbers(self.rows, "buffer_size"), [256] * 6)
        self.assertEqual(numbers(self.rows, "env_steps"), [256 * i for i in range(1, 7)])
        # 256 samples are 4 mini-batches of 64, twice
        self.assertEqual(numbers(self.rows, "train/gradient_steps"), [8] * 6)

    def test_every_cell_is_a_finite_number_or_empty(self):
        for row in self.rows:
            for name, cell in row.items():
                self.assertTrue(cell == "" or math.isfinite(float(cell)), f"{name}: {cell}")
        evaluations = numbers(self.rows, "eval/return_mean")
        self.assertEqual([value is None for value in evaluations], [True, True, False] * 2)
        survive = numbers(self.rows, "reward/survive")  # 1 in each step but the last one of an episode
        self.assertTrue(all(0.5 < value <= 1.0 for value in survive), survive)
        always = [name for name in self.rows[0] if not name.startswith(("eval/", "rollout/"))]
        self.assertTrue(all(row[name] for row in self.rows for name in always))

    def test_tensorboard_has_the_same_names_and_values(self):  # C16
        shown = scalars(self.home / "tensorboard")
        self.assertEqual(shown.keys(), self.rows[0].keys())
        for name, points in shown.items():
            steps = numbers(self.rows, "env_steps")
            expected = [
                (step, value) for step, value in zip(steps, numbers(self.rows, name), strict=True) if value is not None
            ]
            self.assertEqual([step for step, _ in points], [step for step, _ in expected], name)
            for (_, found), (_, value) in zip(points, expected, strict=True):
                self.assertAlmostEqual(found, value, delta=1e-6 * abs(value), msg=name)

    def test_the_learning_rate_falls_in_equal_steps_and_stays_above_0(self):  # O-53
        for i, rate in enumerate(numbers(self.rows, "train/learning_rate")):
            self.assertAlmostEqual(rate, 3e-4 * (6 - i) / 6, delta=1e-12)

    def test_stages_take_no_longer_than_the_round(self):
        stages = ("sample", "annotate", "transfer", "train", "sync", "record")
        for row in self.rows:
            times = [float(row[f"time/{stage}_seconds"]) for stage in stages]
            self.assertGreaterEqual(min(times), 0.0)
            self.assertAlmostEqual(sum(times), float(row["time/round_seconds"]), delta=1e-3)

    def test_statistics_hold_every_step_once(self):  # C10
        checkpoint = last_checkpoint(self.home)
        self.assertEqual(checkpoint["obs_rms_state"]["count"], 1536)
        self.assertEqual(checkpoint["return_rms_state"]["count"], 1536)
        self.assertEqual((checkpoint["round"], checkpoint["env_steps"]), (6, 1536))

    def test_the_model_is_that_of_the_last_round(self):
        model, learner = load(self.home / "model.pt"), last_checkpoint(self.home)["ranks"][0]["learner"]
        self.assertTrue(torch.equal(parameters_of(model), learner["parameters"].sort().values))
        self.assertEqual(model["obs_rms_state"]["count"], 1536)
        self.assertEqual((model["spec"]["round"], model["spec"]["env_steps"]), (6, 1536))

    def test_the_best_model_carries_the_statistics_of_its_own_moment(self):  # C17
        third, sixth = (row["eval/return_mean"] for row in (self.rows[2], self.rows[5]))
        best_round = 6 if float(sixth) > float(third) else 3
        best = load(self.home / "model_best.pt")
        self.assertEqual(best["spec"]["round"], best_round)
        self.assertEqual(best["obs_rms_state"]["count"], 256 * best_round)
        self.assertEqual(best["spec"]["eval_return"], max(float(third), float(sixth)))

    def test_the_files_beside_the_run_are_copies(self):
        for name in ("model", "model_best"):
            latest = self.home.parent / f"{name.replace('model', 'model_smoke')}.pt"
            self.assertEqual(latest.read_bytes(), (self.home / f"{name}.pt").read_bytes())


class SameSeedTest(FolderTestCase):
    """The same configuration three ways: twice at once in one output folder, and by torchrun with one process."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        config = cls.config("tiny", TINY)
        twins = [cls.start(config, "run_name=twin") for _ in range(2)]
        for program in twins:
            succeeded(program)
        succeeded(cls.start(config, "run_name=alone", "metrics_path=m.csv", "seed=2"))
        succeeded(cls.start(config, "run_name=launched", nproc=1))
        cls.output = cls.work / "output"

    def checkpoint(self, name):
        return last_checkpoint(self.output / f"tiny-{name}")

    def test_two_runs_at_once_get_a_folder_each_and_both_are_whole(self):  # O-59
        folders = {path.name for path in self.output.iterdir() if path.is_dir()}
        self.assertEqual(folders, {"tiny-twin", "tiny-twin-2", "tiny-alone", "tiny-launched"})
        for name in ("twin", "twin-2"):
            self.assertEqual(numbers(read_csv(self.output / f"tiny-{name}" / "metrics.csv"), "round"), [*range(1, 11)])
        self.assertFalse([name for name in files_in(self.output) if name.endswith(".tmp")])

    def test_the_same_seed_gives_the_same_run_to_the_last_bit(self):
        self.assertEqual(differences(self.checkpoint("twin"), self.checkpoint("twin-2")), [])
        first, second = (read_csv(self.output / f"tiny-{name}" / "metrics.csv") for name in ("twin", "twin-2"))
        self.assertEqual(without_times(first), without_times(second))

    def test_torchrun_with_one_process_gives_the_same_run_to_the_last_bit(self):
        self.assertEqual(differences(self.checkpoint("twin"), self.checkpoint("launched")), [])

    def test_another_seed_gives_another_run(self):
        paths = differences(self.checkpoint("twin"), self.checkpoint("alone"))
        self.assertIn("/ranks/0/learner/parameters", paths)
        self.assertIn("/obs_rms_state/mean", paths)

    def test_the_metrics_lie_where_the_setting_says(self):
        self.assertEqual(len(read_csv(self.work / "m.csv")), 10)
        self.assertFalse((self.output / "tiny-alone" / "metrics.csv").exists())


class TwoLearnersTest(FolderTestCase):
    """Two learners on gloo that average parameters every 4th of 8 rounds, among three processes of torchrun."""

    WORDS = ("device=cpu", "num_gpus=2", "num_actors=2", "param_sync_interval=4", "total_env_steps=512")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        config = cls.config("tiny", TINY)
        words = (
            *cls.WORDS,
            "checkpoint_interval=6",
            "learning_rate_schedule=adaptive",
            "target_kl=0.002",
            "run_name=a",
        )
        cls.ended = succeeded(cls.start(config, *words, nproc=3))
        cls.home = cls.work / "output" / "tiny-a"
        shutil.copytree(cls.home, cls.work / "other" / "tiny-a")
        resume = f"resume={cls.work}/other/tiny-a/checkpoints/checkpoint_0000006.pt"
        cls.resumed = succeeded(cls.start(config, *words, "output_dir=other", resume, nproc=2))
        cls.rows = read_csv(cls.home / "metrics.csv")

    def learners(self, number):
        """Both learners' state in a checkpoint."""
        content = load(self.home / "checkpoints" / f"checkpoint_{number:07d}.pt")
        return [rank["learner"] for rank in content["ranks"]]

    def test_learners_differ_between_syncs_and_are_equal_after_each(self):  # C12
        self.assertEqual(numbers(self.rows, "sync/distinct_parameters"), [2, 2, 2, 1, 2, 2, 2, 1])

    def test_the_checkpoints_show_the_same(self):
        self.assertIn("/parameters", differences(*self.learners(6)))
        self.assertEqual(differences(*self.learners(8)), [])

    def test_the_learning_rate_adapts_to_the_kl_of_all_learners(self):  # C14
        self.assertGreater(len(set(numbers(self.rows, "train/learning_rate"))), 1)
        self.assertNotIn("/learning_rate", differences(*self.learners(6)))

    def test_the_surplus_process_says_so_once_and_leaves(self):  # C3
        self.assertEqual(self.ended.out.count("rank 2 is surplus: the run has 2 learners"), 1)
        self.assertEqual(self.ended.out.count("torchrun started 3 processes for 2 learners"), 1)

    def test_metrics_are_those_of_all_learners(self):  # C13
        # Each learner has 1 actor x 2 environments x 16 steps.
        self.assertEqual(numbers(self.rows, "env_steps"), [64 * i for i in range(1, 9)])
        self.assertEqual(numbers(self.rows, "buffer_size"), [64] * 8)
        content = last_checkpoint(self.home)
        self.assertEqual(content["obs_rms_state"]["count"], 512)
        self.assertEqual([len(rank["actors"]) for rank in content["ranks"]], [1, 1])

    def test_learners_sample_different_episodes(self):
        first, second = (rank["actors"][0] for rank in last_checkpoint(self.home)["ranks"])
        self.assertIn("/env/obs", differences(first, second))

    def test_a_resumed_run_ends_like_the_unbroken_one(self):  # C18, O-38: from a round in which learners differ
        self.assertIn("after round 6", self.resumed.out)
        other = self.work / "other" / "tiny-a"
        self.assertEqual(differences(last_checkpoint(self.home), last_checkpoint(other)), [])
        self.assertEqual(without_times(read_csv(other / "metrics.csv")), without_times(self.rows))


class GradientsTest(FolderTestCase):
    """Two learners that average the gradient of every mini-batch and stop their epochs at a KL."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        config = cls.config("tiny", TINY)
        words = ("device=cpu", "num_gpus=2", "num_actors=2", "total_env_steps=512", "sync_mode=gradients")
        kl = ("target_kl=0.003", "num_epochs=6", "learning_rate=0.01")
        succeeded(cls.start(config, *words, *kl, nproc=2))
        (cls.home,) = (path for path in (cls.work / "output").iterdir() if path.is_dir())
        cls.rows = read_csv(cls.home / "metrics.csv")

    def test_learners_are_equal_after_every_round(self):
        self.assertEqual(numbers(self.rows, "sync/distinct_parameters"), [1] * 8)
        first, second = (rank["learner"] for rank in last_checkpoint(self.home)["ranks"])
        self.assertEqual(differences(first, second), [])

    def test_they_stop_their_epochs_together(self):  # O-34, C14
        epochs = numbers(self.rows, "train/epochs")
        self.assertTrue(all(value.is_integer() for value in epochs), epochs)
        self.assertLess(min(epochs), 6)
        # 32 samples of a learner are one mini-batch: a gradient step an epoch, of both learners
        self.assertEqual(numbers(self.rows, "train/gradient_steps"), [2 * value for value in epochs])


class ResumeTest(FolderTestCase):
    """A run of 400 rounds beside one that was stopped by SIGTERM and went on."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        config = cls.config("tiny", TINY)
        words = ("total_env_steps=25600", "checkpoint_interval=1000", "eval_interval=0", "learning_rate=1e-3")
        whole = cls.start(config, *words, "run_name=whole")
        program = cls.start(config, *words, "run_name=parts")
        program.wait_until(lambda: "round 3/400" in program.out, "third round")
        os.kill(program.process.pid, signal.SIGTERM)
        cls.stopped = program.end()
        cls.whole, cls.parts = (cls.work / "output" / f"tiny-{name}" for name in ("whole", "parts"))
        cls.stopped_rows = read_csv(cls.parts / "metrics.csv")
        cls.stopped_checkpoint = last_checkpoint(cls.parts)
        cls.stopped_model = load(cls.parts / "model.pt")
        cls.resumed = succeeded(cls.start(config, *words, "run_name=parts", "resume=auto"))
        cls.resumed_files = {name: (cls.parts / name).read_bytes() for name in files_in(cls.parts)}
        cls.again = succeeded(cls.start(config, *words, "run_name=parts", f"resume={cls.parts}"))
        succeeded(whole)

    def test_a_run_that_was_asked_to_stop_ends_with_a_checkpoint_of_its_last_round(self):  # O-45
        self.assertEqual((self.stopped.code, self.stopped.left, self.stopped.err), (143, [], ""))
        rounds = len(self.stopped_rows)
        self.assertGreaterEqual(rounds, 3)
        self.assertLess(rounds, 400)
        self.assertEqual(self.stopped_checkpoint["round"], rounds)
        self.assertIn(f"stopped by a signal: {rounds} rounds", self.stopped.out)
        self.assertIn("resume=output/tiny-parts", self.stopped.out)

    def test_it_leaves_the_model_of_that_round_although_nothing_was_evaluated(self):  # C17
        spec = self.stopped_model["spec"]
        self.assertEqual(spec["round"], len(self.stopped_rows))
        self.assertNotIn("eval_return", spec)
        expected = self.stopped_checkpoint["ranks"][0]["learner"]["parameters"].sort().values
        self.assertTrue(torch.equal(parameters_of(self.stopped_model), expected))

    def test_a_resumed_run_goes_on_where_it_stopped_and_says_so(self):
        self.assertIn(f"after round {len(self.stopped_rows)}", self.resumed.out)
        self.assertIn(f"round {len(self.stopped_rows) + 1}/400", self.resumed.out)
        self.assertNotIn(f"round {len(self.stopped_rows)}/400", self.resumed.out)

    def test_it_ends_with_the_same_state_as_the_unbroken_run(self):
        found = differences(last_checkpoint(self.whole), last_checkpoint(self.parts))
        # Stopping evaluated once more, which may have found a better model.
        self.assertEqual([path for path in found if path != "/best_return"], [])

    def test_its_metrics_are_those_of_the_unbroken_run(self):  # C16
        expected, found = (without_times(read_csv(run / "metrics.csv")) for run in (self.whole, self.parts))
        self.assertEqual(found, expected)
        self.assertEqual(len(found), 400)

    def test_its_learning_rate_falls_as_if_it_had_not_stopped(self):  # O-53
        for i, rate in enumerate(numbers(read_csv(self.parts / "metrics.csv"), "train/learning_rate")):
            self.assertAlmostEqual(rate, 1e-3 * (400 - i) / 400, delta=1e-12)

    def test_tensorboard_goes_on_without_a_gap_or_overlap(self):  # O-55
        for tag, points in scalars(self.parts / "tensorboard").items():
            steps = [step for step, _ in points]
            self.assertEqual(steps, sorted(set(steps)), tag)
            if tag == "train/policy_loss":
                self.assertEqual(steps, [64 * i for i in range(1, 401)])
            if tag == "time/elapsed_seconds":
                times = [value for _, value in points]
                self.assertEqual(times, sorted(times))

    def test_resuming_a_finished_run_updates_nothing_and_says_so(self):
        self.assertIn("nothing to do: all 400 rounds are done", self.again.out)
        self.assertNotIn("round 400/400", self.again.out)
        for name, content in self.resumed_files.items():
            if name.startswith("checkpoints/") or name.endswith((".csv", ".pt")):
                self.assertEqual((self.parts / name).read_bytes(), content, name)


class SignalTest(FolderTestCase):
    def hanging(self, name):
        """A run whose only actor hangs in its first rollout."""
        calls = self.folder / name
        calls.mkdir()
        config = self.config(
            name, FIXTURE.replace("Count-v0", "Misbehaving-v0").replace("num_actors: 2", "num_actors: 1")
        )
        program = self.start(config, f"env_kwargs={{how: hang, at: 5, folder: {calls}}}")
        program.wait_until(lambda: "rsssss" in [path.read_text() for path in calls.iterdir()], "hanging actor")
        return program

    def test_ctrl_c_and_a_closed_terminal_end_a_run_with_a_checkpoint_of_its_last_round(self):  # O-44
        config = self.config("ctrl_c", TINY)
        words = ("total_env_steps=1e6", "checkpoint_interval=100000", "eval_interval=0")
        programs = {n: self.start(config, *words, f"run_name={n.name}") for n in (signal.SIGINT, signal.SIGHUP)}
        for number, program in programs.items():
            program.wait_until(lambda program=program: "round 2/" in program.out, "second round")
            program.signal_group(number)
        for number, program in programs.items():
            ended = program.end(10)
            self.assertEqual((ended.code, ended.left, ended.err), (128 + number, [], ""))
            (run,) = (path for path in (self.work / "output").glob(f"ctrl_c-{number.name}"))
            rows = read_csv(run / "metrics.csv")
            (checkpoint,) = (run / "checkpoints").iterdir()
            self.assertEqual(load(checkpoint)["round"], len(rows))
            self.assertFalse([name for name in files_in(run) if name.endswith(".tmp")])

    def test_a_second_ctrl_c_ends_a_run_at_once(self):  # O-44
        program = self.hanging("twice")
        program.signal_group(signal.SIGINT)
        with self.assertRaises(AssertionError):  # the first one waits for the round, which never ends here
            program.wait_until(lambda: False, "end", seconds=0.5)
        self.assertIsNone(program.process.poll())
        program.signal_group(signal.SIGINT)
        ended = program.end(3, grace_seconds=3)
        self.assertEqual((ended.code, ended.left), (130, []))
        self.assertNotIn("Traceback", ended.err)

    def test_ctrl_c_under_torchrun_ends_every_learner_with_a_checkpoint(self):  # O-44
        # It reaches the learners twice: from the terminal, and from torchrun.
        config = self.config("terminal", TINY)
        words = ("device=cpu", "num_gpus=2", "total_env_steps=1e6", "checkpoint_interval=100000", "eval_interval=0")
        program = self.start(config, *words, nproc=2)
        program.wait_until(lambda: "round 2/" in program.out, "second round")
        program.signal_group(signal.SIGINT)
        ended = program.end(15)
        self.assertEqual(ended.left, [])
        (run,) = (self.work / "output").glob("terminal-*")
        self.assertEqual(last_checkpoint(run)["round"], len(read_csv(run / "metrics.csv")))

    def test_ctrl_c_while_the_actors_start_ends_quietly(self):
        config = self.config("early", FIXTURE)
        program = self.start(config, "num_actors=8", "total_env_steps=1e8")
        program.wait_until(lambda: len(program.alive()) > 2, "actors")
        program.signal_group(signal.SIGINT)
        ended = program.end(15)
        self.assertEqual((ended.code, ended.left, ended.err), (130, [], ""))

    def test_sigterm_to_torchrun_alone_ends_every_learner_with_a_checkpoint(self):  # O-45
        config = self.config("launcher", TINY)
        words = ("device=cpu", "num_gpus=2", "total_env_steps=1e6", "checkpoint_interval=100000", "eval_interval=0")
        program = self.start(config, *words, nproc=2)
        program.wait_until(lambda: "round 2/" in program.out, "second round")
        os.kill(program.process.pid, signal.SIGTERM)
        ended = program.end(15)
        self.assertNotEqual(ended.code, 0)  # torchrun's own: 1
        self.assertEqual(ended.left, [])
        (run,) = (path for path in (self.work / "output").glob("launcher-*"))
        self.assertEqual(last_checkpoint(run)["round"], len(read_csv(run / "metrics.csv")))

    def test_a_learner_that_is_killed_ends_the_others(self):  # O-37
        config = self.config("killed", TINY)
        words = ("device=cpu", "num_gpus=2", "total_env_steps=1e6", "checkpoint_interval=1", "eval_interval=0")
        program = self.start(config, *words, nproc=2)
        program.wait_until(lambda: "round 4/" in program.out, "fourth round: the third one is saved")
        (victim,) = (pid for pid in program.alive() if is_learner(pid, rank=1))
        os.kill(victim, signal.SIGKILL)
        ended = program.end(60, grace_seconds=5)
        self.assertNotEqual(ended.code, 0)
        self.assertEqual(ended.left, [])
        self.assertRegex(ended.err, r"(?is)rank *: 1.*signal 9|rank 1.*SIGKILL|local_rank: 1.*Signal 9")
        (run,) = (path for path in (self.work / "output").glob("killed-*"))
        self.assertGreaterEqual(last_checkpoint(run)["round"], 3)


# Quick for one round of 16 steps; the second one would take half a minute.
LONG_ROUND = "env_id=tests.long.environments:Slow-v0", "env_kwargs={seconds: 1, slow_from: 16}"


class LongRoundTest(FolderTestCase):
    """A stop request in the middle of something long: the run ends in time, with what the last whole round has left."""

    SECONDS = 10.0

    def stopped(self, name, *words, nproc=None, until="round 1/"):
        """The end and the run folder of a run that gets TERM half a second after it has said something."""
        program = self.start(self.config(name, TINY), *words, "eval_interval=0", "total_env_steps=1e6", nproc=nproc)
        program.wait_until(lambda: until in program.out, until)
        with self.assertRaises(AssertionError):
            program.wait_until(lambda: False, "end", seconds=0.5)
        asked = time.monotonic()
        os.kill(program.process.pid, signal.SIGTERM)
        ended = program.end(30)
        self.assertLess(time.monotonic() - asked, self.SECONDS)
        self.assertEqual(ended.left, [])
        (run,) = (self.work / "output").glob(f"{name}-*")
        return ended, run

    def test_a_rollout_is_cut_short_and_the_round_before_it_saved(self):  # O-45
        ended, run = self.stopped("rollout", *LONG_ROUND, "envs_per_actor=1", "checkpoint_interval=1000")
        self.assertEqual((ended.code, ended.err), (143, ""))
        self.assertIn("stopped by a signal: 1 rounds", ended.out)
        self.assertEqual((last_checkpoint(run)["round"], len(read_csv(run / "metrics.csv"))), (1, 1))
        self.assertEqual(load(run / "model.pt")["spec"]["round"], 1)  # C17
        (event,) = events_of(run)
        self.assertEqual((event["event"], event["round"]), ("cut_short", 1))

    def test_several_learners_save_the_round_before_it_too(self):  # C14
        words = (*LONG_ROUND, "envs_per_actor=1", "checkpoint_interval=1000", "device=cpu", "num_gpus=2")
        ended, run = self.stopped("learners", *words, nproc=2)
        self.assertNotEqual(ended.code, 0)
        content = last_checkpoint(run)
        self.assertEqual((content["round"], len(content["ranks"])), (1, 2))

    def test_an_update_is_cut_short_and_the_round_before_it_kept(self):
        config = self.config("update", TINY)
        self.train(config, "total_env_steps=128", "eval_interval=0", "run_name=a")
        before = last_checkpoint(self.work / "output" / "update-a")
        words = ("num_epochs=1000000", "run_name=a", "resume=auto")
        ended, run = self.stopped("update", *words, until="after round 2")
        self.assertEqual((ended.code, ended.err), (143, ""))
        self.assertEqual(differences(last_checkpoint(run), before), [])

    def test_the_start_is_cut_short(self):
        words = ("env_id=tests.long.environments:Late-v0", f"env_kwargs={{seconds: 60, folder: {self.folder}}}")
        program = self.start(self.config("start", TINY), *words)
        program.wait_until(lambda: [*self.folder.glob("*-start")], "environments that are being built")
        asked = time.monotonic()
        os.kill(program.process.pid, signal.SIGTERM)
        ended = program.end(30)
        self.assertEqual((ended.code, ended.left, ended.err), (143, [], ""))
        self.assertLess(time.monotonic() - asked, self.SECONDS)


class OtherRankTest(FolderTestCase):
    """Two learners, and an environment of rank 1 that observes NaN in the 6th step of the second rollout."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        words = ("env_id=tests.long.environments:OnRank-v0", "env_kwargs={how: nan_obs, rank: 1, at: 22, length: 5}")
        program = cls.start(cls.config("rank", TINY), *words, "device=cpu", "num_gpus=2", "run_name=a", nproc=2)
        cls.ended = program.end(60)
        cls.home = cls.work / "output" / "rank-a"

    def test_its_fault_is_an_event_and_leaves_evidence(self):
        (event,) = (event for event in events_of(self.home) if event["event"] == "actor_error")
        self.assertEqual((event["rank"], event["round"]), (1, 1))
        self.assertRegex(event["what"], "actor 0 of rank 1 .*the observation of environment 0 is nan in step 6 of the")
        self.assertEqual([path.name for path in self.home.glob("evidence*")], ["evidence_0000002_rank_1.pt"])

    def test_what_both_had_learnt_until_then_is_saved(self):
        content = last_checkpoint(self.home)  # the settings ask for one in the fifth round
        self.assertEqual((content["round"], len(content["ranks"])), (1, 2))

    def test_the_others_say_and_write_down_who_left_and_why(self):  # C14
        self.assertEqual(self.ended.left, [])
        expected = r"rank 0: all_reduce failed .*: rank 1 has left: actor 0 of rank 1 .*environment 0 is nan"
        self.assertRegex(self.ended.err, f"(?m)^ddp-ppo: {expected}")
        (event,) = (event for event in events_of(self.home) if event["event"] == "collective_error")
        self.assertRegex(event["what"], expected)
        self.assertEqual(event["rank"], 0)


class EpisodesTest(FolderTestCase):
    """Runs in environments with known episodes, one actor each."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        config = cls.config("count", FIXTURE.replace("num_actors: 2", "num_actors: 1"))
        cases = {
            "long": ("env_kwargs={length: 1000}", "envs_per_actor=1", "rollout_length=128", "total_env_steps=1024"),
            "endless": ("total_env_steps=96",),
            "uneven": ("env_kwargs={length: 3}", "envs_per_actor=15", "rollout_length=100", "total_env_steps=10000"),
            "shorter": ("env_id=tests.support.fixtures:Limited-v0", "max_episode_steps=3", "total_env_steps=1"),
            "longer": ("env_id=tests.support.fixtures:Limited-v0", "max_episode_steps=7", "total_env_steps=96"),
            "late": ("env_id=tests.support.fixtures:LateTerm-v0", "max_episode_steps=40", "total_env_steps=128"),
        }
        common = ("eval_interval=0", "checkpoint_interval=1000")
        cls.ended = {}
        for pair in (("long", "endless", "longer"), ("uneven", "shorter", "late")):
            started = {name: cls.start(config, f"run_name={name}", *cases[name], *common) for name in pair}
            cls.ended |= {name: succeeded(program) for name, program in started.items()}
        cls.home = {name: cls.work / "output" / f"count-{name}" for name in cases}
        cls.rows = {name: read_csv(run / "metrics.csv") for name, run in cls.home.items()}

    def test_an_episode_longer_than_the_rollout_appears_once_when_it_ends(self):  # O-09
        rows = self.rows["long"]
        self.assertEqual(numbers(rows, "env_steps"), [128 * i for i in range(1, 9)])
        self.assertEqual(numbers(rows, "rollout/episodes"), [0] * 7 + [1])
        for name in ("rollout/episode_return_mean", "rollout/episode_length_mean"):
            self.assertEqual([row[name] for row in rows], [""] * 7 + ["1000"])

    def test_an_environment_that_never_ends_is_trained_on(self):  # O-10
        rows = self.rows["endless"]
        self.assertEqual(len(rows), 3)
        for row in rows:
            self.assertEqual((row["rollout/episode_return_mean"], row["rollout/episode_length_mean"]), ("", ""))
            self.assertTrue(math.isfinite(float(row["train/policy_loss"]) + float(row["train/value_loss"])))

    def test_a_term_of_the_reward_has_a_column_from_the_round_in_which_it_first_appears(self):
        # 0.5 from step 20 on, in steps 1-16, 17-32, 33-40 and 1-8, 9-24 of an episode: 13, 8 and 5 times of 16.
        self.assertEqual(numbers(self.rows["late"], "reward/late"), [None, 0.40625, 0.25, 0.15625])

    def test_it_is_said_once_that_no_episode_has_ended(self):  # O-10
        lines = [line for line in self.ended["endless"].out.splitlines() if re.search("no episode", line)]
        self.assertEqual(len(lines), 1, self.ended["endless"].out)
        self.assertNotIn("no episode", self.ended["shorter"].out)

    def test_a_total_that_is_no_multiple_of_the_round_is_rounded_up_everywhere(self):  # O-11
        rows = self.rows["uneven"]
        self.assertEqual(numbers(rows, "env_steps"), [1500 * i for i in range(1, 8)])
        self.assertEqual(last_checkpoint(self.home["uneven"])["env_steps"], 10_500)
        self.assertIn("7 rounds, 10,500 environment steps", self.ended["uneven"].out)
        for i, rate in enumerate(numbers(rows, "train/learning_rate")):
            self.assertAlmostEqual(rate, 3e-4 * (7 - i) / 7, delta=1e-12)

    def test_a_total_below_one_round_is_one_round(self):  # O-11
        self.assertEqual(numbers(self.rows["shorter"], "env_steps"), [32])

    def test_every_return_and_length_is_that_of_whole_episodes(self):  # O-08
        for row in self.rows["uneven"]:
            self.assertEqual((row["rollout/episode_return_mean"], row["rollout/episode_length_mean"]), ("3", "3"))
        # 15 environments x 100 steps: 33 or 34 episodes of 3 steps each
        self.assertEqual(numbers(self.rows["uneven"], "rollout/episodes")[:3], [15 * 33, 15 * 33, 15 * 34])

    def test_the_limit_of_the_configuration_replaces_the_registered_one(self):  # O-69
        for name, limit in (("shorter", "3"), ("longer", "7")):
            with self.subTest(name):
                self.assertEqual({row["rollout/episode_length_mean"] for row in self.rows[name]}, {limit})
                self.assertEqual(self.rows[name][-1]["eval/length_mean"], limit)


class EvaluationTest(FolderTestCase):
    """The same training with many evaluations and with one, in environments that observe 100 more when evaluated."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        text = FIXTURE.replace("Count-v0", "Dice-v0") + "env_kwargs: {shift: 100, shift_from: 2}\n"
        config = cls.config("dice", text)
        programs = [cls.start(config, f"eval_interval={n}", f"run_name=every_{n}") for n in (1, 0)]
        for program in programs:
            succeeded(program)
        cls.often, cls.once = (cls.work / "output" / f"dice-every_{n}" for n in (1, 0))

    def test_evaluations_leave_no_trace_in_the_statistics(self):  # O-28
        state = last_checkpoint(self.often)["obs_rms_state"]
        self.assertEqual(state["count"], 640)
        # 640 draws of N(0, 1): the mean is within 5 standard errors, far from what one shifted observation adds
        self.assertLess(abs(float(state["mean"][0])), 5 / math.sqrt(640))
        self.assertLess(float(state["var"][0]), 1.5)

    def test_evaluations_leave_training_as_it_was(self):
        # The environment's own draws, in the first column; the second shares NumPy's global generator with evaluations.
        often, once = (last_checkpoint(run)["obs_rms_state"] for run in (self.often, self.once))
        self.assertEqual(float(often["mean"][0]), float(once["mean"][0]))
        self.assertEqual(float(often["var"][0]), float(once["var"][0]))

    def test_evaluations_have_raw_rewards_and_always_the_same_seeds(self):
        for name, value in (("eval/return_mean", "5"), ("eval/return_std", "0"), ("eval/length_mean", "5")):
            self.assertEqual({row[name] for row in read_csv(self.often / "metrics.csv")}, {value})


class BestModelTest(FolderTestCase):
    """A run with a best evaluation of -1 goes on in an environment that gives -3."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        config = cls.config("script", FIXTURE.replace("Count-v0", "Script-v0"))
        cls.home = cls.work / "output" / "script-a"
        cls.best, cls.reports = [], []
        for i, (reward, total) in enumerate(((-1.0, 128), (-3.0, 256))):
            script = f"env_kwargs={{rewards: [{reward}], obs: [1], reset_obs: 0, term_at: 0}}"
            report = cls.folder / f"{i}.json"
            resume = [f"resume={cls.home}"] if i else []
            succeeded(cls.start(config, script, "run_name=a", f"total_env_steps={total}", *resume, "--json", report))
            cls.best.append((cls.home / "model_best.pt").read_bytes())
            cls.reports.append(json.loads(report.read_text()))

    def test_a_worse_evaluation_after_a_resume_leaves_the_best_model_alone(self):  # O-56
        self.assertEqual(self.best[1], self.best[0])
        self.assertEqual([report["best_return"] for report in self.reports], [-1.0, -1.0])
        self.assertEqual(self.reports[1]["eval_return"], -3.0)

    def test_the_model_of_the_moment_is_written_all_the_same(self):
        self.assertEqual(load(self.home / "model.pt")["spec"]["round"], 4)


class InitFromTest(FolderTestCase):
    """A model that trains on with a step size of almost nothing."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        config = cls.config("tiny", TINY)
        cls.train(config, "run_name=first")
        first = cls.work / "output" / "tiny-first"
        cls.first = load(first / "model.pt")
        few = ("total_env_steps=64", "learning_rate=1e-12")
        cls.second, cls.third = (cls.work / "output" / f"tiny-{name}" for name in ("second", "third"))
        cls.train(config, "run_name=second", f"init_from={first / 'model.pt'}", *few)
        checkpoint = first / "checkpoints" / "checkpoint_0000010.pt"
        cls.from_checkpoint = cls.start(config, "run_name=third", f"init_from={checkpoint}", *few).end()

    def test_a_fresh_run_starts_from_the_parameters_of_a_model(self):
        second = load(self.second / "model.pt")
        for trunk in ("actor", "critic"):
            for name, tensor in self.first[trunk].items():
                torch.testing.assert_close(second[trunk][name], tensor, rtol=0, atol=1e-9)
        self.assertGreater(float(self.first["actor"]["0.bias"].abs().max()), 1e-4)
        self.assertEqual(numbers(read_csv(self.second / "metrics.csv"), "round"), [1])

    def test_it_starts_from_the_statistics_of_the_model(self):
        # 640 steps were in the model, 64 came in the round after it.
        self.assertEqual(load(self.second / "model.pt")["obs_rms_state"]["count"], 704)

    def test_a_copy_of_a_checkpoint_goes_on_in_a_run_folder_of_its_own_with_the_steps_that_are_left(self):
        elsewhere = self.work / "elsewhere"
        elsewhere.mkdir()
        copy = elsewhere / "checkpoint_0000010.pt"
        shutil.copy(self.work / "output" / "tiny-first" / "checkpoints" / copy.name, copy)
        words = (f"resume={copy}", "run_name=copied", "total_env_steps=720", "envs_per_actor=1")
        ended = self.train(self.folder / "tiny.yaml", *words)
        self.assertIn("lies in no run folder: the run goes on in a new one", ended.out)
        self.assertEqual([path.name for path in elsewhere.iterdir()], [copy.name])
        rows = read_csv(self.work / "output" / "tiny-copied" / "metrics.csv")
        # 640 steps are done in 10 rounds; now a round is 2 actors x 16 steps.
        self.assertEqual(numbers(rows, "round"), [11, 12, 13])
        self.assertEqual(numbers(rows, "env_steps"), [672, 704, 736])
        for i, rate in enumerate(numbers(rows, "train/learning_rate")):
            self.assertAlmostEqual(rate, 3e-4 * (96 - 32 * i) / 736, delta=1e-12)

    def test_a_checkpoint_serves_as_well(self):
        self.assertEqual(self.from_checkpoint.code, 0, self.from_checkpoint.err)
        parameters = last_checkpoint(self.third)["ranks"][0]["learner"]["parameters"]
        first = last_checkpoint(self.work / "output" / "tiny-first")["ranks"][0]["learner"]["parameters"]
        torch.testing.assert_close(parameters, first, rtol=0, atol=1e-9)


# Either of the two actors may be the first to say what happened in its third environment.
THIRD_ENVIRONMENT = r"^ddp-ppo: actor (0 of rank 0 .*environment 2 |1 of rank 0 .*environment 5 )"


class FailureTest(FolderTestCase):
    """What goes wrong in an environment ends the whole run with one readable message."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        text = FIXTURE.replace("Count-v0", "Misbehaving-v0").replace("envs_per_actor: 2", "envs_per_actor: 3")
        config = cls.config("tiny", text + "actor_timeout_seconds: 5\nmax_actor_restarts: 0\n")
        kinds = {
            "raise": "{how: raise, at: 40, number: 2}",
            "hang": "{how: hang, at: 40, number: 2}",
            "nan_obs": "{how: nan_obs, at: 50, number: 2}",
            "inf_reward": "{how: inf_reward, at: 50, number: 2}",
        }
        cls.ended = {}
        for pair in (("raise", "hang"), ("nan_obs", "inf_reward")):
            started = {kind: cls.start(config, f"env_kwargs={kinds[kind]}", f"run_name={kind}") for kind in pair}
            cls.ended |= {kind: program.end(30) for kind, program in started.items()}

    def test_an_exception_is_shown_with_its_traceback_and_place(self):  # O-39
        ended = self.ended["raise"]
        self.assertEqual((ended.code, ended.left), (1, []))
        headline, *rest = ended.err.splitlines()
        self.assertRegex(headline, THIRD_ENVIRONMENT + ".*boom-17")
        self.assertIn("ValueError: boom-17", rest)
        self.assertNotIn("EOFError", ended.err)

    def test_a_hang_ends_at_the_time_limit(self):  # O-40
        ended = self.ended["hang"]
        self.assertEqual((ended.code, ended.left), (1, []))
        (line,) = ended.err.splitlines()
        self.assertRegex(line, r"^ddp-ppo: actor [01] of rank 0 .*sampling round 3 within actor_timeout_seconds=5")
        self.assertLess(ended.seconds, 25.0)  # 5 s until it is given up, 5 s to close, and the start

    def test_an_observation_that_is_no_number_is_named(self):  # O-21
        self.assert_named(self.ended["nan_obs"], "observation")

    def test_a_reward_that_is_not_finite_is_named(self):  # O-22
        self.assert_named(self.ended["inf_reward"], "reward")

    def assert_named(self, ended, what):
        self.assertEqual((ended.code, ended.left), (1, []))
        # The 50th step is the second one of the fourth round of 16.
        headline = ended.err.splitlines()[0]
        self.assertRegex(headline, THIRD_ENVIRONMENT)
        for part in ("round 4", "step 2 of the rollout", what):
            self.assertIn(part, headline)

    def test_no_file_holds_a_number_that_is_not_finite(self):
        for path in (self.work / "output").rglob("*.pt"):
            if path.name.startswith("evidence_"):  # which exists to hold it
                continue
            for tensor in tensors(load(path)):
                self.assertTrue(torch.isfinite(tensor).all(), path)


class FunctionTest(FolderTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with Program(PROGRAMS / "trainings.py", folder=cls.work) as program:
            cls.lines = succeeded(program).out.splitlines()

    def run_named(self, name):
        """The run folder with this name."""
        (run,) = (self.work / "output").glob(f"*-{name}")
        return run

    def test_a_program_of_one_s_own_trains_one_configuration_after_another(self):
        lines = [line.split() for line in self.lines[:2]]
        self.assertEqual([line[:2] for line in lines], [["1", "64"], ["1", "64"]])
        for _, _, folder, best_return in lines:
            (row,) = read_csv(self.work / folder / "metrics.csv")
            self.assertEqual(float(row["eval/return_mean"]), float(best_return))

    def test_an_error_that_nobody_has_foreseen_leaves_what_whole_rounds_have_learnt(self):
        self.assertEqual(self.lines[2], "odd")
        run = self.run_named("odd")
        self.assertEqual(last_checkpoint(run)["round"], 2)
        (event,) = events_of(run)
        self.assertEqual((event["event"], event["round"], event["what"]), ("error", 2, "RuntimeError('odd')"))

    def test_a_best_model_that_could_not_be_written_is_written_after_the_next_round(self):
        run = self.run_named("blocked")
        for best in (run / "model_best.pt", run.parent / "model_config_best.pt"):
            self.assertEqual((load(best)["spec"]["round"], load(best)["spec"]["eval_return"]), (2, 5.0))
        self.assertEqual(last_checkpoint(run)["best_return"], 5.0)
        self.assertEqual(len([line for line in self.lines if line.startswith("warning: cannot write model_best")]), 1)

    def test_an_evaluation_that_meets_a_nan_is_named_and_is_not_the_best(self):
        run = self.run_named("blocked")
        (event,) = events_of(run)
        self.assertEqual((event["event"], event["round"]), ("non_finite", 1))
        seed = evaluation_seeds(1, 1)[0]
        what = f"the evaluation of round 1 does not count: reward nan in step 3 of the episode of seed {seed}"
        self.assertEqual(event["what"], what)
        self.assertIn(f"note: {what}", self.lines)
        self.assertEqual(numbers(read_csv(run / "metrics.csv"), "eval/return_mean"), [None, 5, 5, 5])


class CallerTest(FolderTestCase):
    """A program that trains in threads and in its main one, and ends each run after its second of 10 rounds."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with Program(PROGRAMS / "in_a_thread.py", cls.config("tiny", TINY), folder=cls.work) as program:
            cls.ended = succeeded(program)

    def test_it_may_call_from_any_thread_and_finds_its_process_as_it_was(self):
        expected = [f"{where}: 2 rounds, changed: []" for where in ("thread", "main", "thread", "main")]
        self.assertEqual((self.ended.out.splitlines(), self.ended.err), (expected, ""))

    def test_a_run_that_it_ends_leaves_a_checkpoint_and_a_model_of_its_last_round(self):  # C17
        runs = [path for path in (self.work / "output").iterdir() if path.is_dir()]
        self.assertEqual(len(runs), 5)
        for run in runs:
            self.assertEqual(numbers(read_csv(run / "metrics.csv"), "round"), [1, 2])
            self.assertEqual((last_checkpoint(run)["round"], load(run / "model.pt")["spec"]["round"]), (2, 2))
            self.assertTrue((run / "report.html").exists())


class ActorProcessTest(FolderTestCase):
    def test_actors_have_one_thread_and_no_torch_and_the_learner_as_parent(self):  # O-46
        folder = self.folder / "witness"
        folder.mkdir()
        config = self.config("witness", FIXTURE.replace("Count-v0", "Witness-v0"))
        program = self.start(config, f"env_kwargs={{folder: {folder}}}")
        succeeded(program)
        reports = [json.loads(path.read_text()) for path in folder.glob("*.json")]
        self.assertGreaterEqual(len(reports), 4)
        self.assertEqual({report["num_threads"] for report in reports}, {1})
        self.assertEqual({report["has_torch"] for report in reports}, {False})
        self.assertEqual({report["parent"] for report in reports}, {program.process.pid})


if __name__ == "__main__":
    unittest.main()
