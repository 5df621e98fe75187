"""Learners of one launch, as real processes of one launcher: who is seen, and who may be killed."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from ddp_ppo.processes import siblings
from tests.support.process import PROGRAMS, ROOT, Program


@unittest.skipUnless(Path("/proc/self/stat").exists(), "needs /proc")
class LearnersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory(prefix="ddp_ppo_test_") as name:
            folder = Path(name) / "work"
            folder.mkdir()
            with Program(PROGRAMS / "launcher.py", folder=folder) as program:
                ended = program.end(60)
        assert ended.code == 0, ended.err
        cls.seen = json.loads(ended.out)
        cls.pids = {str(rank): pid for rank, pid in enumerate(cls.seen["pids"])}

    def test_all_learners_of_the_launch_are_seen_by_rank_and_nobody_else(self):
        self.assertEqual(self.seen["all"], {rank: [pid, False] for rank, pid in self.pids.items()})

    def test_a_stopped_one_is_told_from_the_others(self):
        self.assertEqual(self.seen["stopped"], {rank: [pid, rank == "1"] for rank, pid in self.pids.items()})

    def test_the_stopped_one_of_this_launch_alone_is_killed(self):
        self.assertEqual((self.seen["ended"], self.seen["code"]), ([1], -signal.SIGKILL))
        self.assertEqual(self.seen["again"], [])
        self.assertIsNone(self.seen["other"])  # stopped too, but of another launch

    def test_one_that_has_ended_is_not_seen_any_more(self):
        self.assertEqual(set(self.seen["later"]), {"0", "2"})


class NoLauncherTest(unittest.TestCase):
    def test_a_process_that_is_no_learner_sees_nobody_and_kills_nobody(self):
        code = "from ddp_ppo.processes import siblings; print(siblings.learners_here(), siblings.end_stopped())"
        environ = {name: value for name, value in os.environ.items() if name != "RANK"}
        words = [sys.executable, "-c", code]
        result = subprocess.run(words, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=30)
        self.assertEqual(result.stdout, "{} []\n")

    def test_a_process_that_is_gone_cannot_be_looked_at(self):
        child = subprocess.Popen([sys.executable, "-c", "pass"])
        child.wait(30)
        self.assertIsNone(siblings._look(child.pid))


if __name__ == "__main__":
    unittest.main()
