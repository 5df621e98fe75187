"""CSV, TensorBoard and console, read back as their users read them."""

import contextlib
import csv
import io
import logging
import math
import os
import pty
import tempfile
import unittest
from pathlib import Path
from types import MappingProxyType

import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from ddp_ppo.config.settings import ConfigError
from ddp_ppo.runs.metrics import Console, CsvLog, TensorBoardLog, progress_line, time_metrics

logging.getLogger("tensorboard").setLevel(logging.ERROR)  # it warns of every resume that it finds

NAN = math.nan


def row(round_index, **values):
    return {"round": float(round_index), "env_steps": 64.0 * round_index, "train/value_loss": 0.1, **values}


class FolderTestCase(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.path = self.folder / "metrics.csv"

    def log(self, rounds, *, after_round=0, **values):
        log = CsvLog(self.path, after_round=after_round)
        for round_index in rounds:
            log.write(row(round_index, **values))
        log.close()

    def rows(self):
        with open(self.path, newline="") as file:
            return list(csv.DictReader(file))

    def rounds(self):
        return [line["round"] for line in self.rows()]


class CsvTest(FolderTestCase):
    def test_first_line_names_the_columns_and_each_row_follows(self):
        self.log([1, 2])
        expected = "round,env_steps,train/value_loss\n1,64,0.1\n2,128,0.1\n"
        self.assertEqual(self.path.read_text(), expected)

    def test_row_is_on_disk_at_once(self):
        log = CsvLog(self.path, after_round=0)
        self.addCleanup(log.close)
        log.write(row(1))
        self.assertEqual(self.rounds(), ["1"])

    def test_nothing_to_report_is_an_empty_cell(self):  # O-09
        self.log([1], **{"rollout/episode_return_mean": NAN, "last": 3.0})
        self.assertEqual(self.path.read_text().splitlines()[1], "1,64,0.1,,3")

    def test_numbers_come_back_exactly(self):
        values = [0.1, 1e-300, -1234567.891, 1e15, 1e22, 123456789012345.0, 2.0**53, -0.5, 3e-5, math.inf]
        self.log([1], **{f"v{i}": value for i, value in enumerate(values)})
        self.assertEqual([float(self.rows()[0][f"v{i}"]) for i in range(len(values))], values)

    def test_fresh_start_overwrites_an_old_file(self):  # C16
        self.log([1, 2, 3])
        self.log([1], other=5.0)
        self.assertEqual(self.path.read_text(), "round,env_steps,train/value_loss,other\n1,64,0.1,5\n")

    def test_fresh_start_leaves_nothing_of_an_old_file_even_before_its_first_row(self):
        self.log([1, 2, 3])
        self.log([])
        self.assertEqual(self.path.read_text(), "")

    def test_resume_goes_on_without_gap_overlap_or_second_header(self):  # C16
        self.log(range(1, 8))
        self.log([6, 7, 8], after_round=5)
        self.assertEqual(self.rounds(), [str(i) for i in range(1, 9)])
        self.assertEqual(self.path.read_text().count("env_steps"), 1)

    def test_resumed_rows_keep_their_text(self):
        self.log([1, 2], **{"a": NAN, "b": 1 / 3})
        before = self.path.read_text()
        self.log([], after_round=2)
        self.assertEqual(self.path.read_text(), before)

    def test_row_that_was_cut_off_in_writing_is_dropped(self):
        self.log(range(1, 11))
        with open(self.path, "a") as file:
            file.write("1")  # of 11,704,...
        self.log([11], after_round=10)
        self.assertEqual(self.rounds(), [str(i) for i in range(1, 12)])

    def test_resume_without_a_file_starts_one(self):
        self.log([6], after_round=5)
        self.assertEqual(self.rounds(), ["6"])

    def test_a_file_that_is_no_text_is_refused_on_a_resume_and_left_alone(self):
        content = b"round,train/value_loss\n1,0.\xff\n"
        self.path.write_bytes(content)
        with self.assertRaisesRegex(ConfigError, f"^{self.path}: no metrics file to go on with"):
            self.log([2], after_round=1)
        self.assertEqual(self.path.read_bytes(), content)

    def test_missing_folders_are_made(self):
        self.path = self.folder / "a" / "b" / "metrics.csv"
        self.log([1])
        self.assertEqual(self.rounds(), ["1"])


class TensorBoardTest(FolderTestCase):
    def write(self, rows, *, after_step=0):
        log = TensorBoardLog(
            self.folder / "tensorboard", after_step=after_step, settings={"seed": 1, "gamma": 0.99, "env_id": "A"}
        )
        for values in rows:
            log.write(values, int(values["env_steps"]))
        log.close()

    def read(self):
        accumulator = EventAccumulator(str(self.folder / "tensorboard"))
        accumulator.Reload()
        return accumulator

    def points(self, tag):
        return [(event.step, event.value) for event in self.read().Scalars(tag)]

    def test_names_and_values_are_those_of_the_csv(self):  # C16
        rows = [row(i, **{"a/x": i / 3, "b": -1e30, "sometimes": NAN if i % 2 else 5.0}) for i in range(1, 5)]
        self.write(rows)
        log = CsvLog(self.path, after_round=0)
        for values in rows:
            log.write(values)
        log.close()
        lines = self.rows()
        self.assertEqual(set(self.read().Tags()["scalars"]), set(lines[0]))
        for tag in lines[0]:
            expected = [(int(line["env_steps"]), float(np.float32(line[tag]))) for line in lines if line[tag]]
            self.assertEqual(self.points(tag), expected, tag)

    def test_nothing_to_report_is_no_point(self):
        self.write([row(1, a=NAN), row(2, a=1.0), row(3, a=NAN)])
        self.assertEqual(self.points("a"), [(128, 1.0)])

    def test_resume_hides_what_lies_behind_its_checkpoint(self):  # O-55
        self.write([row(i, a=float(i)) for i in range(1, 8)])
        self.write([row(i, a=10.0 * i) for i in range(6, 9)], after_step=5 * 64)
        expected = [(64 * i, float(i)) for i in range(1, 6)] + [(64 * i, 10.0 * i) for i in range(6, 9)]
        self.assertEqual(self.points("a"), expected)
        for tag in self.read().Tags()["scalars"]:
            steps = [step for step, _ in self.points(tag)]
            self.assertEqual(steps, sorted(set(steps)), tag)

    def test_text_can_be_read(self):
        log = TensorBoardLog(self.folder / "tensorboard", after_step=0, settings={})
        log.write_text("config", "seed: 1 ö", 0)
        log.close()
        (event,) = self.read().Tensors("config")
        self.assertEqual(event.tensor_proto.string_val[0].decode(), "seed: 1 ö")


class TimeMetricsTest(unittest.TestCase):
    def test_no_second_counts_twice(self):
        metrics = MappingProxyType({"a": 1.0, "time/transfer_seconds": 0.5, "time/idle_seconds": 0.25})  # left alone
        seconds = {"sample": 4.0, "annotate": 1.0, "train": 3.0, "sync": 0.5, "record": 2.5, "round": 10.0}
        found = time_metrics(metrics, seconds, num_steps=640, elapsed_seconds=70.0)
        split = {"sample": 3.0, "annotate": 1.0, "transfer": 0.5, "train": 2.5, "sync": 0.5, "record": 2.5}
        expected = {f"time/{name}_seconds": value for name, value in {**split, "idle": 0.25, "round": 10.0}.items()}
        expected |= {"time/steps_per_second": 64.0, "time/elapsed_seconds": 70.0}
        self.assertEqual(found, expected)
        self.assertEqual(sum(split.values()), seconds["round"])

    def test_a_learner_without_a_device_of_its_own_transfers_nothing(self):
        seconds = {"sample": 0.0, "annotate": 0.0, "train": 3.0, "sync": 0.0, "record": 0.0, "round": 3.0}
        found = time_metrics({"time/idle_seconds": 0.0}, seconds, num_steps=1, elapsed_seconds=0.0)
        self.assertEqual((found["time/train_seconds"], found["time/transfer_seconds"]), (3.0, 0.0))

    def test_annotation_that_overlaps_training_leaves_no_negative_time(self):
        metrics = {"time/transfer_seconds": 0.0, "time/idle_seconds": 0.0}
        seconds = {"sample": 0.1, "annotate": 1.0, "train": 3.0, "sync": 0.0, "record": 0.0, "round": 3.1}
        found = time_metrics(metrics, seconds, num_steps=1, elapsed_seconds=0.0)
        self.assertEqual(found["time/sample_seconds"], 0.0)


class ConsoleTest(unittest.TestCase):
    def session(self, stream):
        console = Console(stream)
        console.say("start")
        console.progress("round 1", keep=False)
        console.progress("round 2", keep=False)
        console.progress("round 3", keep=True)
        console.progress("round 4", keep=False)
        console.say("end")

    def in_terminal(self, speak):
        """What a terminal receives."""
        outer, inner = pty.openpty()
        with open(inner, "w", encoding="utf-8") as stream:
            speak(stream)
        received = b""
        with open(outer, "rb", 0) as reader, contextlib.suppress(OSError):  # Linux's way to say that all has been read
            while chunk := reader.read(4096):
                received += chunk
        return received.decode().replace("\r\n", "\n")

    def test_a_silent_one_takes_everything_and_prints_nothing(self):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            console = Console.silent()
            console.say("start")
            console.progress("round 1", keep=True)
        self.assertEqual(printed.getvalue(), "")

    def test_pipe_gets_every_line_and_no_control_characters(self):
        stream = io.StringIO()
        self.session(stream)
        self.assertEqual(stream.getvalue(), "start\nround 1\nround 2\nround 3\nround 4\nend\n")

    def test_terminal_overwrites_the_line_of_the_round_and_keeps_what_it_is_told_to(self):
        lines = self.in_terminal(self.session).split("\n")
        shown = [line.split("\r\x1b[2K")[-1] for line in lines]
        self.assertEqual(shown, ["start", "round 3", "round 4", "end", ""])

    def test_line_that_would_wrap_is_cut_on_a_terminal_unless_it_stays(self):
        columns = os.environ.get("COLUMNS")
        os.environ["COLUMNS"] = "20"
        self.addCleanup(
            os.environ.__setitem__ if columns else os.environ.pop, "COLUMNS", *([columns] if columns else [])
        )
        cut = self.in_terminal(lambda stream: Console(stream).progress("x" * 30, keep=False))
        self.assertEqual(cut.count("x"), 19)
        kept = self.in_terminal(lambda stream: Console(stream).progress("x" * 30, keep=True))
        self.assertEqual(kept.count("x"), 30)

    def test_a_stream_that_takes_nothing_any_more_ends_no_run(self):
        outer, inner = pty.openpty()
        os.close(outer)  # which makes it an EIO
        reader, writer = os.pipe()
        os.close(reader)
        for descriptor in (inner, writer, os.open("/dev/full", os.O_WRONLY)):
            stream = open(descriptor, "w")  # noqa: SIM115 - what closing it does is the question
            self.session(stream)
            self.session(stream)
            stream.close()  # as Python does at its exit; it would raise if something were left to write
            self.session(stream)
        with contextlib.redirect_stdout(None):
            self.session(None)

    def test_a_line_that_a_full_disk_does_not_take_is_lost_and_the_next_one_written(self):
        with (
            open(self.enterContext(tempfile.NamedTemporaryFile()).name, "w+") as stream,
            open("/dev/full", "w") as full,
        ):
            console, disk = Console(stream), os.dup(stream.fileno())
            os.dup2(full.fileno(), stream.fileno())
            console.say("lost")
            os.dup2(disk, stream.fileno())
            os.close(disk)
            console.say("written")
            stream.seek(0)
            self.assertEqual(stream.read(), "written\n")

    def test_text_that_a_stream_cannot_encode_is_escaped(self):
        stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
        Console(stream).say("output/ü")
        self.assertEqual(stream.buffer.getvalue(), b"output/\\xfc\n")


class ProgressLineTest(unittest.TestCase):
    ROW = row(
        7,
        **{"eval/return_mean": NAN, "train/approx_kl": 0.01234, "time/steps_per_second": 12345.6},
        **{"time/round_seconds": 2.0, "time/sample_seconds": 1.0, "time/train_seconds": 0.8},
        **{"time/sync_seconds": 0.1, "time/record_seconds": 0.1},
    )

    def line(self, *, recent_return=NAN, seconds_left=75.0, **values):
        changed = {**self.ROW, **values}
        return progress_line(changed, num_rounds=20, recent_return=recent_return, seconds_left=seconds_left)

    def test_line_says_where_the_run_is(self):
        expected = "round 7/20  |  448 steps | kl 0.0123 | 12,346 steps/s | sample 50% train 40% | 1m15s left"
        self.assertEqual(self.line(), expected)

    def test_returns_are_shown_where_there_are_some(self):
        line = self.line(recent_return=123.44, **{"eval/return_mean": -5.06})
        self.assertIn("| return  123.4 | kl", line)
        self.assertTrue(line.endswith("left | eval -5.1"))

    def test_a_learner_without_a_kl_shows_its_loss_once_it_has_one(self):
        self.assertIn("| loss 1.2500 |", self.line(**{"train/approx_kl": NAN, "train/loss": 1.25}))
        self.assertNotIn("loss", self.line(**{"train/loss": NAN}))

    def test_large_numbers_are_short(self):
        self.assertIn("|  12k steps |", self.line(env_steps=12_345.0))
        self.assertIn("| 12.35M steps |", self.line(env_steps=12_345_678.0))

    def test_time_left_has_two_units(self):
        for seconds, expected in ((9.4, "9s"), (59.6, "1m00s"), (3600.0, "1h00m"), (90_061.0, "25h01m")):
            self.assertTrue(self.line(seconds_left=seconds).endswith(f"| {expected} left"))


if __name__ == "__main__":
    unittest.main()
