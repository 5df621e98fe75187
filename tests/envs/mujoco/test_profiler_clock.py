"""The settings of the MuJoCo library: its profiler clock and its warnings, each in a process of its own."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import mujoco

from ddp_ppo.envs.mujoco.batch import missing_batch
from ddp_ppo.envs.mujoco.profiler_clock import remove_profiler_clock
from tests.support.mujoco_tasks import needs_batch
from tests.support.process import PROGRAMS, ROOT


class LibraryTest(unittest.TestCase):
    def run_child(self, name, *words, cwd=None):
        command, environ = [sys.executable, PROGRAMS / f"{name}.py", *words], {**os.environ, "PYTHONPATH": str(ROOT)}
        result = subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def test_trajectories_are_the_same_with_and_without_the_profiler_clock(self):
        digest, has_clock = self.run_child("mujoco_digest", "remove").stdout.split()
        self.assertEqual(has_clock, "False")
        self.assertEqual(self.run_child("mujoco_digest").stdout.split()[0], digest)

    @unittest.skipUnless(sys.platform == "linux", "the library is known to be found on Linux")
    @unittest.skipIf(missing_batch(), "an older MuJoCo removes its clock when it is asked to")
    def test_mujoco_s_own_call_does_not_remove_the_clock(self):
        found = self.run_child("clock_after_import").stdout
        self.assertEqual(found, "True\n", "MuJoCo removes it now: profiler_clock.py can go")

    @unittest.skipUnless(sys.platform == "linux", "the library is known to be found on Linux")
    def test_the_clock_is_removed_where_the_library_is_known(self):
        self.assertTrue(remove_profiler_clock())
        self.assertTrue(remove_profiler_clock())

    def test_the_clock_stays_where_the_library_is_not_found(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(mujoco, "__file__", f"{folder}/__init__.py"):
            with self.assertLogs("ddp_ppo.envs.mujoco.profiler_clock", "DEBUG") as logs:
                self.assertFalse(remove_profiler_clock())
            self.assertEqual(len(logs.output), 1)
            Path(folder, "libmujoco.so.9").write_bytes(b"no library")
            self.assertFalse(remove_profiler_clock())

    @unittest.skipUnless(sys.platform == "linux", "the library is known to be found on Linux")
    def test_a_clock_that_someone_else_has_set_stays(self):
        self.assertEqual(self.run_child("foreign_clocks").stdout.split(), ["False", "True"] * 3)

    @needs_batch
    def test_an_unstable_simulation_is_logged_with_a_count_and_leaves_no_file(self):
        with tempfile.TemporaryDirectory() as folder:
            lines = self.run_child("unstable_simulation", cwd=folder).stderr.splitlines()
            self.assertEqual(os.listdir(folder), [])
        self.assertEqual(len(lines), 4, lines)  # 1st, 2nd, 4th and 8th; nothing about Gymnasium's model files
        self.assertIn("no. 8", lines[-1])
        self.assertIn("unstable", lines[-1])


if __name__ == "__main__":
    unittest.main()
