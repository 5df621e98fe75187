"""metrics.csv, read back as its users read it."""

import contextlib
import csv
import errno
import fcntl
import itertools
import math
import os
import resource
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from ddp_ppo.config.settings import ConfigError
from ddp_ppo.runs.csv_log import CsvLog, log_notes

NAN = math.nan


class Killed(BaseException):
    """Stands for SIGKILL: what has been done by then is what a reader finds."""


@contextlib.contextmanager
def killed_at(moment):
    """Ends at the call of this number, counted from 1, among those that bring a file to the disk."""
    calls, real = itertools.count(1), {name: getattr(os, name) for name in ("fsync", "replace")}

    def call(name, *args):
        if next(calls) == moment:
            raise Killed
        real[name](*args)

    with contextlib.ExitStack() as stack:
        for name in real:
            stack.enter_context(mock.patch.object(os, name, lambda *args, name=name: call(name, *args)))
        yield


def row(round_index, **values):
    return {"round": float(round_index), "env_steps": 64.0 * round_index, "train/value_loss": 0.1, **values}


class LogTestCase(unittest.TestCase):
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


class CsvTest(LogTestCase):
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

    def test_a_row_without_its_line_s_end_is_dropped_though_it_has_all_cells(self):  # H-d
        self.log([1, 2])
        self.path.write_bytes(self.path.read_bytes()[:-2])  # of 2,128,0.1
        self.log([], after_round=2)
        self.assertEqual(self.rounds(), ["1"])

    def notes(self, last_round, first=("1", "0.5"), *, is_own=True):
        return log_notes(self.path, first=first, last_round=last_round, is_own=is_own)

    def test_rows_that_a_resumed_run_lacks_are_told(self):  # H-d
        self.log([1, 2, 4, 6], **{"time/elapsed_seconds": 0.5})
        self.assertEqual(self.notes(2), [])
        (note,) = self.notes(4)
        self.assertIn(f"{self.path} lacks round 3: it was cut or could not be written", note)
        self.assertIn("lacks 2 rounds from 3 to 5", self.notes(6)[0])
        self.path.unlink()
        self.assertEqual(self.notes(6), [f"{self.path} is missing: its rows start with round 7"])
        self.log([7], after_round=6)
        self.assertEqual(self.notes(7, ("7", "")), [])

    def test_a_file_that_another_run_has_overwritten_is_refused_and_left_alone(self):  # D10
        first = CsvLog(self.path, after_round=0)
        first.write(row(1, **{"time/elapsed_seconds": 0.25}))
        first.close()
        self.assertEqual(first.first, ["1", "0.25"])
        self.assertEqual(self.notes(1, first.first, is_own=False), [])
        self.log([1, 2, 3], **{"time/elapsed_seconds": 0.5})
        before = self.path.read_bytes()
        with self.assertRaisesRegex(ConfigError, f"^metrics_path: {self.path} holds the metrics of another run; name"):
            self.notes(1, first.first, is_own=False)
        self.assertEqual(self.path.read_bytes(), before)
        again = CsvLog(self.path, after_round=2)
        again.close()
        self.assertEqual(again.first, ["1", "0.5"])

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


class LateColumnTest(LogTestCase):
    """A metric that is first reported in a later round, such as a term of the reward."""

    def log_late(self, **options):
        self.log([1, 2])
        self.log([3], after_round=2, **{"reward/goal": 0.5}, **options)

    def test_a_metric_has_a_column_from_the_first_row_that_names_it(self):
        log = CsvLog(self.path, after_round=0)
        self.addCleanup(log.close)
        log.write(row(1))
        log.write(row(2, **{"reward/goal": 0.5, "a,b": 7.0}))
        log.write(row(3))
        log.write(row(4, **{"reward/fall": NAN, "reward/goal": 1.5}))
        expected = (
            'round,env_steps,train/value_loss,reward/goal,"a,b",reward/fall\n'
            "1,64,0.1,,,\n2,128,0.1,0.5,7,\n3,192,0.1,,,\n4,256,0.1,1.5,,\n"
        )
        self.assertEqual(self.path.read_text(), expected)

    def test_resume_goes_on_with_the_columns_that_are_there(self):  # C16
        self.log_late()
        self.log([3, 4], after_round=2)
        expected = "round,env_steps,train/value_loss,reward/goal\n1,64,0.1,\n2,128,0.1,\n3,192,0.1,\n4,256,0.1,\n"
        self.assertEqual(self.path.read_text(), expected)

    def test_a_resumed_run_knows_what_it_has_reported(self):
        self.log_late(never=NAN)
        for after_round, expected in ((3, {"reward/goal"}), (2, set()), (0, set())):
            log = CsvLog(self.path, after_round=after_round)
            log.close()
            self.assertEqual(log.reported - {"round", "env_steps", "train/value_loss"}, expected)

    def test_a_run_that_is_killed_in_between_leaves_a_file_that_it_can_go_on_from(self):
        before, wide = (
            "round,env_steps,train/value_loss\n1,64,0.1\n",
            "round,env_steps,train/value_loss,late\n1,64,0.1,\n",
        )
        for moment, expected in enumerate((before, before, wide), 1):  # on disk, renamed, the folder on disk
            with self.subTest(moment):
                log = CsvLog(self.path, after_round=0)
                log.write(row(1))
                with killed_at(moment), self.assertRaises(Killed):
                    log.write(row(2, late=1.0))
                log.close()
                self.assertEqual(self.path.read_text(), expected)
                self.log([2], after_round=1, late=1.0)
                self.assertEqual(self.path.read_text(), f"{wide}2,128,0.1,1\n")

    def test_nothing_is_lost_on_a_disk_that_is_full_for_a_while(self):
        log = CsvLog(self.path, after_round=0)
        self.addCleanup(log.close)
        log.write(row(1))
        with mock.patch("os.fsync", side_effect=OSError(errno.ENOSPC, "full")):
            for round_index in (2, 3):
                self.assertRaises(OSError, log.write, row(round_index, late=1.0))
        log.write(row(4, late=1.0))
        expected = "round,env_steps,train/value_loss,late\n1,64,0.1,\n2,128,0.1,1\n3,192,0.1,1\n4,256,0.1,1\n"
        self.assertEqual(self.path.read_text(), expected)

    def test_a_row_that_was_written_by_half_is_completed(self):
        log = CsvLog(self.path, after_round=0)
        self.addCleanup(log.close)
        log.write(row(1))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.path.stat().st_size + 5, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_FSIZE, (soft, hard))
        self.assertRaises(OSError, log.write, row(2))
        self.assertTrue(self.path.read_text().endswith("\n2,128"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        log.write(row(3, late=1.0))
        expected = "round,env_steps,train/value_loss,late\n1,64,0.1,\n2,128,0.1,\n3,192,0.1,1\n"
        self.assertEqual(self.path.read_text(), expected)

    def test_the_new_file_is_locked_as_the_old_one_was_and_nothing_is_left_open(self):
        opened = len(os.listdir("/dev/fd"))
        log = CsvLog(self.path, after_round=0)
        for round_index in range(1, 20):
            log.write(row(round_index, **{f"metric_{round_index}": 1.0}))
        with open(self.path) as file:
            self.assertRaises(BlockingIOError, fcntl.flock, file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            log.close()
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.assertEqual(len(os.listdir("/dev/fd")), opened)
        self.assertEqual(os.listdir(self.folder), ["metrics.csv"])


if __name__ == "__main__":
    unittest.main()
