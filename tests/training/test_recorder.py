"""What rank 0 writes down, and that a disk which takes nothing more costs a warning and not the run."""

import dataclasses
import io
import json
import math
import os
import shutil
import signal
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from ddp_ppo.config.load import load_config
from ddp_ppo.config.settings import ConfigError
from ddp_ppo.learners.registry import LEARNERS
from ddp_ppo.maths.moments import empty_rms_state
from ddp_ppo.report.run_charts import health_charts, other_charts
from ddp_ppo.runs.anomalies import overlap_at_reset
from ddp_ppo.runs.checkpoint import find_checkpoint
from ddp_ppo.runs.console import Console
from ddp_ppo.runs.folder import RunFolder
from ddp_ppo.runs.metric_table import METRICS, Metric
from ddp_ppo.runs.reading import read_run
from ddp_ppo.training.plan import prepare
from ddp_ppo.training.recorder import FaultRecorder, Recorder
from ddp_ppo.training.resume import Resumed
from ddp_ppo.training.sampler import Frozen
from tests.long.mounts import can_mount
from tests.support.process import ROOT, TINY, FolderTestCase, Program, files_in, read_csv
from tests.support.results import last_checkpoint, load, scalars
from tests.support.runs import HEALTHY, SETTLED

MOUNTS = ROOT / "tests" / "long" / "mounts.py"
TIMES = ("round", "sample", "train", "sync", "record")
ENDLESS = ("total_env_steps=1e7", "eval_interval=0", "checkpoint_interval=1", "keep_checkpoints=2", "run_name=a")


CURIOSITY = Metric(name="train/curiosity", question="health", title="Curiosity", console="curious", is_log=True)
CURIOUS = dataclasses.replace(LEARNERS["ppo"], metrics=(CURIOSITY,))  # a kind of learner that brings its own metrics


def row(round_index, **changes):
    """A healthy round."""
    times = {f"time/{name}_seconds": 0.1 for name in TIMES}
    return {"round": float(round_index), "env_steps": 64.0 * round_index, **HEALTHY, **times, **changes}


class RecorderTest(FolderTestCase):
    def setUp(self):
        self.console = io.StringIO()
        config = self.config("tiny", TINY)
        words = (f"output_dir={self.folder / self.id()}", "run_name=a", "keep_checkpoints=2")
        self.plan = prepare(load_config(config, words), environ={})
        self.recorder = Recorder(self.plan, Console(self.console))
        self.addCleanup(self.recorder.__exit__)
        self.recorder.open_logs(0, 0)
        self.home = self.recorder.path

    def events(self):
        return [json.loads(line) for line in (self.home / "events.jsonl").read_text().splitlines()]

    def write(self, rounds, **changes):
        for round_index in rounds:
            self.recorder.row(row(round_index, **changes), seconds_left=1.0, is_last=False)

    def warnings(self):
        return [line for line in self.console.getvalue().splitlines() if line.startswith("warning:")]

    def test_an_event_reaches_terminal_and_file(self):
        self.recorder.event("actor_restart", 3, "actor 1 was killed")
        (event,) = self.events()
        self.assertEqual((event["event"], event["round"], event["what"]), ("actor_restart", 3, "actor 1 was killed"))
        self.assertEqual(event["rank"], 0)
        self.assertIn("note: actor 1 was killed", self.console.getvalue())

    def test_an_anomaly_reaches_terminal_and_file_once(self):
        self.write(range(1, SETTLED + 1))
        self.assertEqual(self.events(), [])
        self.write([SETTLED + 1, SETTLED + 2], **{"train/approx_kl": 0.5})
        (event,) = self.events()
        self.assertEqual((event["event"], event["rule"], event["round"]), ("anomaly", "kl_jump", SETTLED + 1))
        self.assertEqual(self.console.getvalue().count("look: round"), 1)

    def test_a_learner_from_elsewhere_brings_its_rows_of_the_table_of_metrics(self):
        config = load_config(self.config("tiny", TINY), (f"output_dir={self.folder / self.id()}", "run_name=other"))
        console = io.StringIO()
        with (
            mock.patch.dict(LEARNERS, ppo=CURIOUS),
            Recorder(prepare(config, environ={}), Console(console)) as recorder,
        ):
            recorder.open_logs(0, 0)
            for round_index in (1, 2):
                values = {"train/curiosity": 0.5 * round_index, "train/unlisted": float(round_index)}
                recorder.row(row(round_index, **values), seconds_left=1.0, is_last=False)
        self.assertIn("| curious 1.0000 |", console.getvalue())
        run = read_run(recorder.path)
        self.assertEqual(run.table, (*METRICS, *CURIOUS.metrics))
        (chart,) = health_charts(run)
        self.assertEqual((chart.title, chart.series[0].y, chart.is_log), ("Curiosity", [0.5, 1.0], True))
        self.assertIn("train/unlisted", [chart.title for chart in other_charts(run)])
        page = EventAccumulator(str(recorder.path / "tensorboard")).Reload().Tensors("custom_scalars__config__")[-1]
        self.assertIn(b"train/curiosity$", page.tensor_proto.string_val[0])

    def test_every_round_is_a_row_and_a_line(self):
        self.write([1, 2])
        self.assertEqual([line["round"] for line in read_csv(self.home / "metrics.csv")], ["1", "2"])
        self.assertEqual(self.console.getvalue().count("round "), 2)

    def other(self, console):
        """The recorder of rank 1."""
        topology = dataclasses.replace(self.plan.topology, rank=1)
        return FaultRecorder(dataclasses.replace(self.plan, topology=topology), Console(console))

    def test_other_ranks_write_faults_alone_to_the_same_files_and_show_them(self):
        console = io.StringIO()
        before = files_in(self.home)
        columns = {name: np.zeros((5, 2)) for name in ("obs", "act", "reward")}
        where = {"stage": "reward", "env": 1, "step": 3, "column": None, "value": "nan", "name": ""}
        with self.other(console) as recorder:
            recorder.join(self.home)
            recorder.open_logs(0, 0)
            recorder.row(row(1), seconds_left=1.0, is_last=False)
            recorder.checkpoint(1, {})
            recorder.say("hello")
            recorder.event("non_finite", 1, "what happened")
            recorder.evidence({"env": None}, columns, where, 1)
            self.assertIsNone(recorder.path)
        (event,) = self.events()
        self.assertEqual((event["rank"], event["what"]), (1, "what happened"))
        self.assertEqual(files_in(self.home) - before, {"evidence_0000002_rank_1.pt"})
        lines = console.getvalue().splitlines()
        self.assertEqual(lines[0], "note: what happened")
        self.assertRegex(lines[1], "evidence_0000002_rank_1.pt")

    def test_a_rank_that_knows_no_run_folder_shows_faults_all_the_same(self):
        console = io.StringIO()
        with self.other(console) as recorder:
            recorder.join(self.folder / "of another node")
            recorder.event("non_finite", 1, "what happened")
            recorder.evidence({"env": None}, {}, {}, 1)
        self.assertEqual(console.getvalue(), "note: what happened\n")

    def test_bodies_that_overlap_are_an_anomaly(self):
        self.recorder.anomaly(overlap_at_reset("world and torso overlap by 0.500 m after a reset"), 1, 64)
        (event,) = self.events()
        self.assertEqual((event["event"], event["rule"]), ("anomaly", "overlap_at_reset"))
        self.assertIn("look: round 1: overlap_at_reset: world and torso", self.console.getvalue())

    def test_a_checkpoint_that_cannot_be_written_is_one_warning_and_the_last_good_one_stays(self):
        state = {"ranks": [], "values": np.arange(3.0)}
        self.recorder.checkpoint(1, state)
        folder, away = self.home / "checkpoints", self.home / "away"
        folder.rename(away)
        folder.touch()  # a file is in the way, for root too
        for round_index in (2, 3, 4):
            self.recorder.checkpoint(round_index, state)
        self.assertEqual(len(self.warnings()), 1)
        self.assertIn(f"cannot write {folder}: ", self.warnings()[0])  # H-e
        self.assertEqual([*self.recorder.unwritten], [folder])
        folder.unlink()
        away.rename(folder)
        self.assertEqual(last_checkpoint(self.home)["round"], 1)
        self.recorder.checkpoint(5, state)
        self.assertEqual(last_checkpoint(self.home)["round"], 5)
        self.assertEqual(self.recorder.unwritten, {})
        self.assertEqual(len(self.warnings()), 1)

    def test_a_metrics_file_that_was_removed_is_told_once(self):
        self.write([1])
        (self.home / "metrics.csv").unlink()
        self.write([2, 3])
        (warning,) = self.warnings()
        self.assertRegex(warning, "cannot write .*/metrics.csv: the file was removed; the run goes on$")

    def test_a_second_failure_after_a_success_is_told_again(self):
        state, folder = {"ranks": []}, self.home / "checkpoints"
        for round_index in (1, 2):
            folder.touch()
            self.recorder.checkpoint(round_index, state)
            folder.unlink()
            self.recorder.checkpoint(round_index + 10, state)
            shutil.rmtree(folder)
        self.assertEqual(len(self.warnings()), 2)

    def test_a_model_that_cannot_be_written_is_one_warning_for_each_file_and_the_old_ones_stay(self):
        parameters = np.zeros(self.plan.network.num_parameters, np.float32)
        now = Frozen(parameters, empty_rms_state(self.plan.network.obs_size), empty_rms_state(1))
        about = {"round": 1, "env_steps": 64, "eval_return": 1.0}
        for is_best in (False, True):
            self.assertTrue(self.recorder.model(now, about, is_best=is_best))
        before = {name: (self.home / name).read_bytes() for name in ("model.pt", "model_best.pt")}
        blocked = [self.home / f".{name}.{os.getpid()}.tmp" for name in before]  # a folder where it would write
        for path in blocked:
            path.mkdir()
        try:
            for is_best in (False, True) * 3:
                self.assertFalse(self.recorder.model(now, about | {"round": 2}, is_best=is_best))
        except IsADirectoryError:
            self.fail("a model that cannot be written ended the run")
        finally:
            for path in blocked:
                path.rmdir()
        self.assertEqual({name: (self.home / name).read_bytes() for name in before}, before)
        self.assertEqual(len(self.warnings()), 2)

    def model_of(self, eval_return):
        """Writes a best model with this return."""
        parameters = np.zeros(self.plan.network.num_parameters, np.float32)
        now = Frozen(parameters, empty_rms_state(self.plan.network.obs_size), empty_rms_state(1))
        self.recorder.model(now, {"round": 1, "env_steps": 64, "eval_return": eval_return}, is_best=True)

    def test_a_better_model_of_another_run_keeps_a_name_where_its_folder_is_gone(self):  # C17
        latest = self.home.parent / "model_tiny_best.pt"
        self.model_of(5.0)
        better = latest.read_bytes()
        other = self.home.parent / "tiny-b"
        other.mkdir()
        (self.home / "model_best.pt").rename(other / "model_best.pt")  # it was another run's
        self.model_of(4.0)
        self.assertEqual(files_in(self.home.parent) & {"model_tiny_best_1.pt"}, set())  # it is in that run's folder
        latest.write_bytes(better)
        shutil.rmtree(other)
        self.model_of(4.5)
        self.assertEqual((self.home.parent / "model_tiny_best_1.pt").read_bytes(), better)
        self.assertEqual(load(latest)["spec"]["eval_return"], 4.5)
        self.assertIn("of another run was better (5.0): it is kept as", self.console.getvalue())

    def test_the_best_model_on_the_disk_is_the_best_of_a_run_that_goes_on(self):  # H-c
        self.assertTrue(math.isnan(self.recorder.best_return(3.0)))
        self.assertIn("is not there: the next evaluation gives the best model", self.console.getvalue())
        self.model_of(5.0)
        self.assertEqual([self.recorder.best_return(saved) for saved in (5.0, 3.0, math.nan)], [5.0] * 3)
        self.assertEqual(self.console.getvalue().count("(5.0) is better than any of the checkpoint's"), 2)


class UnusableFilesTest(FolderTestCase):
    """What is found out when the files are opened is one line for the user."""

    def opened(self, *words, spoil=lambda home: None):
        """Opens the logs of a run that resumes."""
        config = self.config("tiny", TINY)
        settings = load_config(config, (f"output_dir={self.folder / self.id()}", "run_name=a", *words))
        with Recorder(prepare(settings, environ={}), Console(io.StringIO())) as recorder:
            spoil(recorder.path)
            recorder.open_logs(3, 192)

    def test_a_metrics_file_that_is_no_text_is_named(self):
        def spoil(home):
            (home / "metrics.csv").write_bytes(b"round,a\n1,\xff\n")

        with self.assertRaisesRegex(ConfigError, r"a/metrics.csv: no metrics file to go on with \(.*0xff"):
            self.opened(spoil=spoil)

    def test_an_events_file_that_is_a_folder_is_named_and_leaves_no_lock(self):
        config = load_config(self.config("tiny", TINY), (f"output_dir={self.folder}/events", "run_name=a"))
        with RunFolder.create(config) as run:
            (run.path / "events.jsonl").mkdir()
        plan = prepare(config, environ={})
        checkpoint = run.path / "checkpoints" / "checkpoint_0000001.pt"
        for _ in range(2):
            with self.assertRaisesRegex(ConfigError, "tiny-a/events.jsonl cannot be opened: Is a directory"):
                Recorder(dataclasses.replace(plan, resumed=Resumed(checkpoint, {})), Console(io.StringIO()))

    def test_a_file_that_cannot_be_opened_is_named(self):
        with self.assertRaisesRegex(ConfigError, "files cannot be opened: File exists: .*tensorboard"):
            self.opened(spoil=lambda home: (home / "tensorboard").touch())


class RunTest(FolderTestCase):
    """A run whose checkpoints cannot be written for some rounds."""

    def test_it_goes_on_with_one_warning_and_saves_again_when_it_can(self):
        program = self.start(self.config("tiny", TINY), *ENDLESS)
        home = self.work / "output" / "tiny-a"
        folder, away = home / "checkpoints", home / "away"
        program.wait_until(lambda: "round 3/" in program.out and folder.exists(), "third round")
        folder.rename(away)
        folder.touch()
        program.wait_until(lambda: "warning:" in program.out, "warning")
        good = find_checkpoint(away)[1]["round"]
        seen = len(read_csv(home / "metrics.csv"))
        program.wait_until(lambda: len(read_csv(home / "metrics.csv")) > seen + 5, "more rounds")
        self.assertEqual(find_checkpoint(away)[1]["round"], good)
        folder.unlink()
        away.rename(folder)
        program.wait_until(lambda: find_checkpoint(home)[1]["round"] > seen, "new checkpoint")
        os.kill(program.process.pid, signal.SIGTERM)
        ended = program.end(15)
        self.assertEqual((ended.code, ended.left, ended.err), (143, [], ""))
        self.assertEqual(ended.out.count("warning:"), 1)
        rounds = [int(line["round"]) for line in read_csv(home / "metrics.csv")]
        self.assertEqual(rounds, [*range(1, len(rounds) + 1)])
        self.assertEqual(find_checkpoint(home)[1]["round"], len(rounds))


@unittest.skipUnless(can_mount(), "needs root and mount namespaces")
class FullDiskTest(FolderTestCase):
    """A run on a disk of 1.2 MiB that someone fills up, and empties again ten rounds later."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        disk, cls.copy = cls.folder / "disk", cls.folder / "copy"
        disk.mkdir()
        words = (cls.config("tiny", TINY), *ENDLESS, f"output_dir={disk}")
        mounted = (MOUNTS, f"{disk} size=1200k", cls.copy, ROOT / "train.py", *words)
        with Program(*mounted, folder=cls.work) as program:

            def inside():  # what the program sees under that name
                return Path(f"/proc/{program.process.pid}/root{disk}")

            def rounds():
                found = program.out.rpartition("\nround ")[2].partition("/")[0]
                return int(found) if found.isdigit() else 0

            program.wait_until(lambda: rounds() >= 5, "fifth round")
            with (inside() / "filler").open("wb", buffering=0) as filler:
                while True:
                    try:
                        filler.write(bytes(1024))
                    except OSError:
                        break
            program.wait_until(lambda: "warning:" in program.out, "warning")
            cls.seen = rounds()
            program.wait_until(lambda: rounds() >= cls.seen + 10, "ten more rounds")
            cls.good = find_checkpoint(inside() / "tiny-a")[1]["round"]
            (inside() / "filler").unlink()
            last = rounds()
            program.wait_until(lambda: find_checkpoint(inside() / "tiny-a")[1]["round"] > last, "a new checkpoint")
            cls.saved_again = find_checkpoint(inside() / "tiny-a")[1]["round"]
            program.wait_until(lambda: len([*(inside() / "tiny-a/tensorboard").iterdir()]) > 1, "another event file")
            last = rounds()
            program.wait_until(lambda: rounds() > last, "one more round")
            for pid in program.alive():
                if str(ROOT / "train.py").encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1:2]:
                    os.kill(pid, signal.SIGTERM)
            cls.ended = program.end(15)

    def test_the_run_goes_on_and_ends_as_it_is_asked_to(self):
        self.assertEqual((self.ended.code % 256, self.ended.left), (143, []))
        self.assertNotIn("train.py", self.ended.err)  # tensorboard's own thread says why it ends, nobody else does

    def test_each_kind_of_file_is_warned_of_once(self):
        warnings = [line.split(":")[1] for line in self.ended.out.splitlines() if line.startswith("warning:")]
        self.assertTrue(warnings)
        self.assertEqual(len(warnings), len(set(warnings)), warnings)

    def test_the_last_good_checkpoint_stays_and_later_ones_follow(self):
        self.assertGreaterEqual(self.good, 3)
        self.assertGreater(self.saved_again, self.seen)

    def test_the_metrics_are_whole_rows_in_their_order(self):
        rows = read_csv(self.copy / "tiny-a" / "metrics.csv")
        rounds = [int(line["round"]) for line in rows]
        self.assertEqual(rounds, sorted(set(rounds)))
        self.assertGreater(rounds[-1], self.seen + 10)
        for line in rows:
            self.assertNotIn(None, line)
            self.assertNotIn(None, line.values())
            self.assertTrue(all(cell == "" or math.isfinite(float(cell)) for cell in line.values()))

    def test_tensorboard_goes_on_when_there_is_room_again(self):
        steps = [step for step, _ in scalars(self.copy / "tiny-a" / "tensorboard")["env_steps"]]
        self.assertGreater(steps[-1], 64 * self.saved_again)
        self.assertEqual(steps, sorted(set(steps)))

    def test_nothing_half_written_is_left(self):
        self.assertFalse([name for name in files_in(self.copy) if name.endswith(".tmp")])


if __name__ == "__main__":
    unittest.main()
