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
from tests.support.process import ROOT, Program

# A launcher with three learners of its launch, one of another launch, and one child of a learner. Each line that a
# learner reads makes it answer; a learner that is stopped does not.
LAUNCHER = """
import json, os, signal, subprocess, sys
LEARNER = '''
import json, subprocess, sys
from ddp_ppo.processes import siblings
actor = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
print("ready", flush=True)
for line in sys.stdin:
    print(json.dumps(getattr(siblings, line.strip())()), flush=True)
'''
def learner(rank, port):
    environ = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "3", "MASTER_ADDR": "x", "MASTER_PORT": str(port)}
    started = subprocess.Popen([sys.executable, "-c", LEARNER], env=environ, stdin=-1, stdout=-1, text=True)
    assert started.stdout.readline() == "ready\\n"
    return started
def ask(one, what):
    one.stdin.write(what + "\\n"); one.stdin.flush()
    return json.loads(one.stdout.readline())
learners = [learner(rank, 1) for rank in range(3)]
other = learner(1, 2)
pids = [one.pid for one in learners]
seen = {"pids": pids, "all": ask(learners[0], "learners_here")}
for one in (learners[1], other):
    os.kill(one.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, one.pid, os.WSTOPPED | os.WNOWAIT)
seen["stopped"] = ask(learners[0], "learners_here")
seen["ended"] = ask(learners[0], "end_stopped")
seen["code"] = learners[1].wait(10)
seen["later"] = ask(learners[2], "learners_here")
seen["again"] = ask(learners[2], "end_stopped")
seen["other"] = other.poll()
print(json.dumps(seen), flush=True)
for one in (learners[0], learners[2], other):
    one.kill()
"""


@unittest.skipUnless(Path("/proc/self/stat").exists(), "needs /proc")
class LearnersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory(prefix="ddp_ppo_test_") as name:
            folder = Path(name) / "work"
            folder.mkdir()
            with Program("-c", LAUNCHER, folder=folder) as program:
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
