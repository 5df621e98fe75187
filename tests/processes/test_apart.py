"""A function in a new process: its result, its error, its end."""

import os
import subprocess
import time
import unittest
from pathlib import Path

from ddp_ppo.processes.apart import ApartError, run_apart

LIMIT_SECONDS = 60.0  # not of tests.support.process: the other process would import torch with it


def seen(name):
    """A variable and who looks at it."""
    return os.environ.get(name), os.getpid()


def fail():
    """Raises."""
    raise KeyError("no such\nthing")


def leave():
    """Ends its process."""
    os._exit(7)


def start():
    """Starts a program and leaves it behind; its process may have children of multiprocessing too."""
    return subprocess.Popen(["sleep", "1000"]).pid


class ApartTest(unittest.TestCase):
    def test_it_returns_what_the_function_returns_in_another_process_with_its_variables(self):
        value, pid = run_apart(seen, "APART_TEST", seconds=LIMIT_SECONDS, variables={"APART_TEST": "5"})
        self.assertEqual(value, "5")
        self.assertNotEqual(pid, os.getpid())
        self.assertNotIn("APART_TEST", os.environ)

    def test_an_error_an_end_and_a_delay_are_one_line(self):
        for task, arguments, seconds, words in (
            (fail, (), LIMIT_SECONDS, r"^KeyError: 'no such\\nthing'$"),
            (leave, (), LIMIT_SECONDS, "^its process has ended with status 7$"),
            (time.sleep, (1000,), 0.2, "^no answer within 0.2 s$"),
        ):
            with self.subTest(task.__name__), self.assertRaisesRegex(ApartError, words):
                run_apart(task, *arguments, seconds=seconds)

    def test_what_it_has_started_ends_with_it(self):
        pid = run_apart(start, seconds=LIMIT_SECONDS)
        deadline = time.monotonic() + LIMIT_SECONDS
        while Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)


if __name__ == "__main__":
    unittest.main()
