"""One actor's process, seen from its learner: how it is started and stopped, and what it has still to answer.

Torch-free.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections import deque
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from ddp_ppo.processes.guardian import VARIABLE, end_marked
from ddp_ppo.processes.lifetime import inherited
from ddp_ppo.protocols import PlainState
from ddp_ppo.sampling.actor import ActorJob, actor_main

Command = tuple[Any, ...]
START: Command = ("start",)  # what a new process answers with "ready", without being told
# An actor computes on one core, whatever its environment is made of; the learner has threads of its own.
_ONE_THREAD = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
_HASH_SEED = "PYTHONHASHSEED"


class ActorProcess:
    """An actor that is running, or being replaced.

    It answers one command after the other: the first of `to_do` is what it is doing, the others wait to be sent.

    Attributes:
        state: where its environments stood after its last rollout; None until they stand there (again).
        to_do: what it has been told and not answered yet.
        answer: what it answered last.
        fate: why the learner has given it up, if it has.
    """

    process: BaseProcess
    connection: Connection

    def __init__(self, job: ActorJob, mark: str = "") -> None:
        """Starts it; `mark` is the beginning of what VARIABLE says in it and in all that its environments start."""
        self.job = job
        self._mark = f"{mark}.{job.rank}.{job.actor_id}."
        self.state: PlainState | None = None
        self.to_do: deque[Command] = deque()
        self.answer: Any = None
        self.fate: str | None = None
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, there = context.Pipe()
        name = f"actor {self.job.rank}.{self.job.actor_id}"
        self.process = context.Process(target=actor_main, args=(self.job, there), name=name, daemon=True)
        # A child ignores these signals as soon as its own code runs; until then it inherits that they are blocked. HUP
        # would end the resource tracker, which the first spawn would start, and which unblocks the other two.
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGHUP,))
        try:
            resource_tracker.ensure_running()
            signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
            with inherited(actor_variables(self._mark)):
                self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        there.close()
        self.to_do.append(START)

    def restart(self) -> None:
        """Replaces the process by a new one, which is to stand where this one did and to do what it was told last."""
        assert self.state is not None
        command = self.to_do[-1]
        self.stop(0.0)
        end_marked(self._mark)
        self.to_do.clear()
        self._start()
        self.to_do += [("restore", self.state), command]
        self.state = self.fate = None

    def tell(self, command: Command) -> None:
        """Gives it something to do, at once if it has nothing else to do.

        Raises:
            OSError: the process is gone.
        """
        self.to_do.append(command)
        if len(self.to_do) == 1:
            self.connection.send(command)

    def receive(self) -> tuple[str, Any]:
        """The kind and the content of the answer that has come; after a "done" the next command is sent.

        Raises:
            EOFError, OSError: the process is gone.
        """
        kind, answer = self.connection.recv()
        if kind not in ("error", "note"):
            done, self.answer = self.to_do.popleft(), answer
            if done[0] == "restore":
                self.state = done[1]
            if self.to_do:
                self.connection.send(self.to_do[0])
        return kind, answer

    @property
    def progress(self) -> int:
        """The step of its rollout or evaluation."""
        return int(self.job.block.arrays["progress"][self.job.actor_id])

    def watch(self) -> None:
        """Starts to count the seconds in which it gives no sign of life."""
        self._seen, self._since = self.progress, time.monotonic()

    def silent_seconds(self) -> float:
        """How long it has made no step, since `watch` at the most."""
        if self.progress != self._seen:
            self.watch()
        return time.monotonic() - self._since

    @property
    def is_lost(self) -> bool:
        """Whether it has ended without an answer, even where a child of its environment holds its end of the pipe."""
        return not self.process.is_alive() and not self.connection.poll()

    def stop(self, seconds: float) -> str:
        """Gives the process some time to end, then kills it; and whatever its environments have started and left.

        Returns:
            what went wrong: the error that closing has raised, or that it took too long; empty if nothing did.
        """
        deadline, trouble = time.monotonic() + seconds, ""
        awaited: list[Connection | int] = [self.connection, self.process.sentinel]
        with contextlib.suppress(EOFError, OSError):  # the process has closed its end, or is gone
            while self.connection in wait(awaited, max(0.0, deadline - time.monotonic())):
                kind, answer = self.connection.recv()
                trouble = answer[0] if kind == "error" else trouble
        self.process.join(max(0.0, deadline - time.monotonic()))
        if self.process.is_alive():
            trouble = trouble or f"has not ended within {seconds:.0f} s"
            self.process.kill()
            self.process.join()
        assert self.process.pid
        with contextlib.suppress(OSError):  # nobody is left
            os.killpg(self.process.pid, signal.SIGKILL)
        self.connection.close()
        self.process.close()
        return trouble


def actor_variables(mark: str) -> dict[str, str]:
    """The environment variables of an actor that differ from its learner's.

    Python's hash seed orders sets: with one that is fixed, all actors, and two runs with the same seed, agree.
    """
    hash_seed = os.environ.get(_HASH_SEED, "random")
    fixed = {_HASH_SEED: "0" if hash_seed == "random" else hash_seed}
    return {VARIABLE: mark, **fixed, **dict.fromkeys(_ONE_THREAD, "1")}
