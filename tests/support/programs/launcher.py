"""A launcher of three learners and one of another launch: stops two of them and prints what the others see of it.

A learner that is stopped does not answer.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

LEARNER = Path(__file__).with_name("learner_of_launch.py")


def learner(rank, port):
    """A running learner of the launch that meets at this port."""
    environ = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "3", "MASTER_ADDR": "x", "MASTER_PORT": str(port)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    started = subprocess.Popen([sys.executable, LEARNER], env=environ, text=True, **pipes)
    assert started.stdout.readline() == "ready\n"
    return started


def ask(one, what):
    """What a learner answers."""
    one.stdin.write(what + "\n")
    one.stdin.flush()
    return json.loads(one.stdout.readline())


learners = [learner(rank, 1) for rank in range(3)]
other = learner(1, 2)
seen = {"pids": [one.pid for one in learners], "all": ask(learners[0], "learners_here")}
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
