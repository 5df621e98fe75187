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
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from ddp_ppo.protocols import PlainState
from ddp_ppo.sampling.actor import ActorJob, actor_main

Command = tuple[Any, ...]
START: Command = ("start",)  # what a new process answers with "ready", without being told


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

    def __init__(self, job: ActorJob) -> None:
        self.job = job
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
        """The kind and the content of the answer that has come; unless it is an error, the next command is sent.

        Raises:
            EOFError, OSError: the process is gone.
        """
        kind, answer = self.connection.recv()
        if kind != "error":
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

    def stop(self, seconds: float) -> None:
        """Gives the process some time to end, then kills it; and whatever its environments have started and left."""
        self.process.join(seconds)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        assert self.process.pid
        with contextlib.suppress(OSError):  # nobody is left
            os.killpg(self.process.pid, signal.SIGKILL)
        self.connection.close()
        self.process.close()
