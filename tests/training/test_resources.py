"""The meter of a learner and its actors: right figures, read seldom and cheaply."""

import math
import os
import subprocess
import sys
import unittest

import torch

from ddp_ppo.training import resources
from ddp_ppo.training.resources import ResourceMeter

MEMORY = ("resource/learner_memory_mib", "resource/actor_memory_mib", "resource/largest_actor_mib")
CORES = ("resource/learner_cores", "resource/actor_cores")


class MeterTest(unittest.TestCase):
    def busy(self):
        """A process that computes for ever, ended with the test."""
        program = subprocess.Popen(
            [sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE
        )
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        program.stdout.readline()
        return program.pid

    def test_actors_count_together_and_the_largest_alone(self):
        pids = [self.busy(), os.getpid()]
        found = ResourceMeter(lambda: pids, torch.device("cpu")).read()
        self.assertEqual(set(found), {*MEMORY, *CORES})
        learner, together, largest = (found[name] for name in MEMORY)
        self.assertAlmostEqual(largest, learner, delta=0.1 * learner)  # torch is loaded here, nothing there
        self.assertGreater(together, 1.02 * largest)
        self.assertLess(together, 1.9 * largest)

    def test_cores_are_the_cpu_time_since_the_look_before(self):
        pid = self.busy()
        meter = ResourceMeter(lambda: [pid], torch.device("cpu"))
        wait_seconds = 1.0
        with self.subTest("a look"):
            self.spend(wait_seconds)
            found = meter.read()
            self.assertGreater(found["resource/actor_cores"], 0.02)  # of a core that others use too
            self.assertLess(found["resource/actor_cores"], 1.1)
            self.assertGreater(found["resource/learner_cores"], 0.02)
        with self.subTest("the same again within half a second"):
            self.assertEqual(meter.read(), found)

    def spend(self, seconds):
        """Computes for so long."""
        deadline = resources.time.perf_counter() + seconds
        while resources.time.perf_counter() < deadline:
            pass

    def test_an_actor_that_is_gone_leaves_its_cells_empty(self):
        program = subprocess.Popen([sys.executable, "-c", ""])
        program.wait(30)
        found = ResourceMeter(lambda: [program.pid], torch.device("cpu")).read()
        self.assertTrue(math.isnan(found["resource/actor_memory_mib"]))
        self.assertGreater(found["resource/learner_memory_mib"], 0)

    @unittest.skipUnless(torch.cuda.is_available(), "needs a GPU")
    def test_memory_that_torch_holds_on_the_gpu_is_counted(self):
        held = torch.zeros(64 * 2**20, dtype=torch.uint8, device="cuda")
        found = ResourceMeter(lambda: [os.getpid()], held.device).read()
        self.assertGreaterEqual(found["resource/gpu_memory_mib"], 64)


if __name__ == "__main__":
    unittest.main()
