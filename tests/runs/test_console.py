"""The console in a terminal, in a pipe and where nobody listens; the line of a round."""

import contextlib
import io
import math
import os
import pty
import tempfile
import unittest

from ddp_ppo.runs.console import Console, progress_line
from ddp_ppo.runs.metric_table import Metric

NAN = math.nan


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

    def test_a_silent_console_says_nothing_anywhere(self):
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
            console = Console.silent()
            console.say("start")
            console.progress("round 1", keep=True)
        self.assertEqual(out.getvalue(), "")

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
    TABLE = (Metric(name="train/approx_kl", console="kl"), Metric(name="train/loss", console="loss"))
    ROW = dict(  # noqa: RUF012 - never written to
        round=7.0,
        env_steps=448.0,
        **{"eval/return_mean": NAN, "train/approx_kl": 0.01234, "time/steps_per_second": 12345.6},
        **{"time/round_seconds": 2.0, "time/sample_seconds": 1.0, "time/train_seconds": 0.8},
        **{"time/sync_seconds": 0.1, "time/record_seconds": 0.1},
    )

    def line(self, *, recent_return=NAN, seconds_left=75.0, **values):
        changed = {**self.ROW, **values}
        return progress_line(changed, self.TABLE, num_rounds=20, recent_return=recent_return, seconds_left=seconds_left)

    def test_line_says_where_the_run_is(self):
        expected = "round 7/20  |  448 steps | kl 0.0123 | 12,346 steps/s | sample 50% train 40% | 1 min 15 s left"
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
        for seconds, expected in ((9.4, "9 s"), (59.6, "1 min 00 s"), (90_061.0, "25 h 01 min")):
            self.assertTrue(self.line(seconds_left=seconds).endswith(f"| {expected} left"))


if __name__ == "__main__":
    unittest.main()
