"""Memory and CPU time of processes: of this one, of another one, of what it has started, and of none."""

import math
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

from ddp_ppo.processes import usage
from ddp_ppo.processes.usage import usage_of, usage_with_children

MIB = 2**20
LIMIT_SECONDS = 30.0
# Says "ready" with 100 MiB, which its child has once more, and waits to be asked to end.
HOLDER = """
import subprocess, sys
held = b"x" * (100 * 2**20)
if len(sys.argv) == 1:
    child = subprocess.Popen([sys.executable, __file__, "child"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdout.readline()
print("ready", flush=True)
sys.stdin.readline()
"""


@unittest.skipUnless(sys.platform == "linux", "reads /proc")
class UsageTest(unittest.TestCase):
    def test_memory_and_cpu_time_grow_with_what_this_process_does(self):
        before = usage_of(os.getpid())
        held = b"x" * (64 * MIB)
        deadline = time.process_time() + 0.1
        while time.process_time() < deadline:
            pass
        after = usage_of(os.getpid())
        self.assertAlmostEqual(after.memory_mib - before.memory_mib, len(held) / MIB, delta=16)
        self.assertAlmostEqual(after.cpu_seconds - before.cpu_seconds, 0.1, delta=0.08)

    def test_the_processes_that_a_process_has_started_count(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "holder.py"
            path.write_text(HOLDER)
            program = subprocess.Popen([sys.executable, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            with program:
                program.stdout.readline()
                alone, together = usage_of(program.pid), usage_with_children(program.pid)
                program.kill()
        self.assertGreater(alone.memory_mib, 100)
        self.assertAlmostEqual(together.memory_mib, 2 * alone.memory_mib, delta=0.2 * alone.memory_mib)

    def test_of_a_process_that_is_gone_nothing_is_known(self):
        program = subprocess.Popen([sys.executable, "-c", ""])
        program.wait(LIMIT_SECONDS)
        self.assertTrue(all(math.isnan(value) for value in usage_with_children(program.pid)))

    def test_without_proc_this_process_still_knows_its_own(self):
        with mock.patch.object(usage, "_read", side_effect=FileNotFoundError):
            own, other = usage_of(os.getpid()), usage_of(os.getppid())
        self.assertGreater(own.memory_mib, 5)
        self.assertGreater(own.cpu_seconds, 0)
        self.assertTrue(math.isnan(other.memory_mib))


if __name__ == "__main__":
    unittest.main()
