"""Limits on what a process does, and what it prints where nobody reads."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

from ddp_ppo.processes.lifetime import is_stopped, time_limit
from tests.support.process import LIMIT_SECONDS, ROOT

PRINTS = "from ddp_ppo.processes.lifetime import outlast_readers; outlast_readers()\n"
PRINTS += "for _ in range(3): print('\\udcff' * 100_000, flush=True)\n"


class LimitTest(unittest.TestCase):
    def test_the_limit_interrupts_and_leaves_an_outer_one_alone(self):
        handler = signal.getsignal(signal.SIGALRM)
        with time_limit(LIMIT_SECONDS, TimeoutError("outer")):
            with self.assertRaisesRegex(TimeoutError, "inner"), time_limit(0.05, TimeoutError("inner")):
                threading.Event().wait(LIMIT_SECONDS)
            self.assertAlmostEqual(signal.getitimer(signal.ITIMER_REAL)[0], LIMIT_SECONDS, delta=5.0)
        self.assertEqual((signal.getitimer(signal.ITIMER_REAL)[0], signal.getsignal(signal.SIGALRM)), (0.0, handler))

    def test_a_program_that_a_signal_has_stopped_is_known(self):
        with subprocess.Popen(["sleep", "60"]) as program:
            self.assertFalse(is_stopped(program.pid))
            program.send_signal(signal.SIGSTOP)
            deadline = time.monotonic() + LIMIT_SECONDS
            while not is_stopped(program.pid) and time.monotonic() < deadline:
                time.sleep(0.01)
            self.assertTrue(is_stopped(program.pid))
            program.kill()


class AgentTest(unittest.TestCase):
    """A worker of torchrun, whose agent is known by its store alone: the parent has died, as this test's has not."""

    WORKER = "import os, sys; from ddp_ppo.processes.lifetime import die_with_agent; die_with_agent(os.environ); "
    WORKER += "print('lives', flush=True); sys.stdin.read()"

    def worker(self, port):
        store = {"TORCHELASTIC_USE_AGENT_STORE": "True", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        program = subprocess.Popen([sys.executable, "-c", self.WORKER], cwd=ROOT, env={**os.environ, **store}, **pipes)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.stdin.close)
        return program

    def test_it_ends_where_the_store_is_gone(self):
        with socket.create_server(("127.0.0.1", 0)) as store:
            port = store.getsockname()[1]
        self.assertEqual((self.worker(port).wait(LIMIT_SECONDS), self.worker(port).stdout.read()), (1, b""))

    def test_it_ends_where_a_dying_agent_has_taken_its_connection_and_serves_nobody(self):
        with socket.create_server(("127.0.0.1", 0)) as store:
            worker = self.worker(store.getsockname()[1])
            self.assertEqual(worker.stdout.readline(), b"lives\n")
        self.assertEqual(worker.wait(LIMIT_SECONDS), 1)

    def test_it_goes_on_beside_a_store_that_lives(self):
        with socket.create_server(("127.0.0.1", 0)) as store:
            worker = self.worker(store.getsockname()[1])
            connection, _ = store.accept()
            with connection:
                self.assertEqual(worker.stdout.readline(), b"lives\n")
                worker.communicate(b"", LIMIT_SECONDS)
        self.assertEqual(worker.returncode, 0)


class PrintTest(unittest.TestCase):
    def test_what_nobody_reads_is_dropped(self):
        reader, writer = os.pipe()
        os.close(reader)
        self.addCleanup(os.close, writer)
        program = [sys.executable, "-c", PRINTS]
        ended = subprocess.run(
            program, stdout=writer, stderr=subprocess.PIPE, cwd=ROOT, timeout=LIMIT_SECONDS, check=False
        )
        self.assertEqual((ended.returncode, ended.stderr), (0, b""))


if __name__ == "__main__":
    unittest.main()
