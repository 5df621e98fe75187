"""Signals to a real process: when its work is cut short, and when it ends."""

import os
import signal
import tempfile
import threading
import time
import unittest
from pathlib import Path

from ddp_ppo.processes.stop_request import CUT_SECONDS, END_SECONDS, StopRequest
from tests.support.process import PROGRAMS, Program


class StopRequestTest(unittest.TestCase):
    def program(self, *words):
        """A running program that has said "ready"."""
        temporary = tempfile.TemporaryDirectory(prefix="ddp_ppo_test_")
        self.addCleanup(temporary.cleanup)
        folder = Path(temporary.name) / "work"
        folder.mkdir()
        program = Program(PROGRAMS / "stopping.py", *words, folder=folder)
        self.addCleanup(program.__exit__)
        program.wait_until(lambda: "ready" in program.out, "start")
        return program

    def end(self, program, *numbers):
        """Sends signals, 0.1 s apart; the end, and how many seconds after the first one it came."""
        start = time.monotonic()
        for number in numbers:
            program.process.send_signal(number)
            with self.assertRaises(AssertionError):
                program.wait_until(lambda: False, "a moment", seconds=0.1)
        ended = program.end(30)
        return ended, time.monotonic() - start

    def test_work_that_takes_long_is_cut_short_and_none_begun_afterwards(self):
        ended, seconds = self.end(self.program("cuttable"), signal.SIGTERM)
        self.assertEqual(ended.out.splitlines(), ["ready", "cut 15 True", "not begun", "True 1"], ended.err)
        self.assertGreaterEqual(seconds, CUT_SECONDS)
        self.assertLess(seconds, END_SECONDS)

    def test_what_cannot_be_cut_ends_with_the_process(self):
        for how in ("stubborn", "deaf"):
            with self.subTest(how):
                ended, seconds = self.end(self.program(how), signal.SIGTERM)
                self.assertEqual((ended.code, ended.out), (128 + signal.SIGTERM, "ready\n"), ended.err)
                self.assertGreaterEqual(seconds, END_SECONDS)
                self.assertLess(seconds, END_SECONDS + 3.0)

    def test_a_program_that_goes_on_gets_an_exception_in_place_of_its_end(self):
        for number, expected in ((signal.SIGINT, "KeyboardInterrupt('')"), (signal.SIGTERM, "SystemExit(143)")):
            with self.subTest(number):
                ended, seconds = self.end(self.program("stubborn", "caller"), number)
                self.assertEqual((ended.code, ended.out), (0, f"ready\nraised {expected} True 1\n"), ended.err)
                self.assertGreaterEqual(seconds, END_SECONDS)
        ended, seconds = self.end(self.program("stubborn", "caller"), signal.SIGINT, 0, 0, 0, 0, signal.SIGINT)
        self.assertEqual((ended.code, ended.out), (0, "ready\nraised KeyboardInterrupt('') True 1\n"), ended.err)
        self.assertLess(seconds, CUT_SECONDS)

    def test_a_terminal_that_is_closed_asks_to_stop_unless_that_is_ignored(self):
        ended, _ = self.end(self.program("quick"), signal.SIGHUP)
        self.assertEqual(ended.out.splitlines()[-1], "asked 1 False", ended.err)
        ended, _ = self.end(self.program("quick", "nohup"), signal.SIGHUP, signal.SIGTERM)
        self.assertEqual(ended.out.splitlines()[-1], "asked 15 False", ended.err)

    def test_the_same_request_may_come_twice_at_once(self):  # from the terminal and from torchrun
        ended, _ = self.end(self.program("quick"), signal.SIGINT)
        self.assertEqual(ended.out.splitlines()[-1], "asked 2 False", ended.err)
        ended, seconds = self.end(self.program("cuttable"), signal.SIGINT, signal.SIGINT)
        self.assertIn("cut 2 True", ended.out)
        self.assertGreaterEqual(seconds, CUT_SECONDS)

    def test_a_second_request_ends_the_process_at_once_wherever_it_waits(self):
        for how in ("cuttable", "deaf"):
            with self.subTest(how):
                ended, seconds = self.end(self.program(how), signal.SIGTERM, signal.SIGALRM, 0, 0, 0, signal.SIGINT)
                self.assertEqual(ended.code, 128 + signal.SIGINT, ended.err)
                self.assertLess(seconds, CUT_SECONDS)


class OtherThreadTest(unittest.TestCase):
    """A thread that is not the main one, to which Python gives no signal."""

    def test_nothing_is_listened_for_and_nothing_of_the_caller_is_changed(self):
        before = self.state()
        seen = []

        def enter():
            with StopRequest() as stop, stop.cuttable():
                seen.append((stop.signal, stop.is_overdue, self.state()))

        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
        self.assertEqual(seen, [(None, False, before)])
        self.assertEqual(self.state(), before)

    def state(self):
        """Handlers of all signals that a run listens for, and this process's descriptors."""
        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM)
        return [signal.getsignal(number) for number in numbers], os.listdir("/proc/self/fd")


if __name__ == "__main__":
    unittest.main()
