"""The learner's side of its actors: starts them, sends commands, gathers answers, and says what became of a lost one.

Every wait has a limit. Torch-free.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from ddp_ppo.actor import ActorJob, actor_main
from ddp_ppo.episodes import Episode, blocks_of
from ddp_ppo.protocols import PlainState

_POLL_SECONDS = 1.0
_CLOSE_SECONDS = 5.0


class ActorError(RuntimeError):
    """An actor failed; the message says which one, where, and why, with its own traceback below."""


@dataclass
class _Member:
    job: ActorJob
    process: BaseProcess
    connection: Connection


class ActorPool:
    """The running actors of one learner; closes them when it is left as a context."""

    def __init__(self, jobs: Sequence[ActorJob], *, timeout_seconds: float) -> None:
        self._timeout = timeout_seconds
        context = multiprocessing.get_context("spawn")
        self._members: list[_Member] = []
        self._assistants: list[_Member] = []
        self._sampling = 0
        try:
            for job in jobs:
                here, there = context.Pipe()
                process = context.Process(
                    target=actor_main, args=(job, there), name=f"actor {job.rank}.{job.actor_id}", daemon=True
                )
                process.start()
                there.close()
                self._members.append(_Member(job, process, here))
        except BaseException:
            self.close()
            raise
        self.states: list[PlainState] = []  # where the actors stood after their last rollout

    def __enter__(self) -> ActorPool:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def wait_ready(self) -> None:
        """Waits until every actor has built its environments.

        Raises:
            ActorError: one failed, exited or took longer than the time limit.
        """
        self.states = self._gather("ready", "starting")

    def restore(self, states: Sequence[PlainState]) -> None:
        """Sets the environments to saved states, one for each actor in order."""
        self._send_all([("restore", state) for state in states])
        self._gather("done", "restoring its environments")
        self.states = list(states)

    def sample(self, round_index: int) -> list[dict[str, Any]]:
        """One rollout by all actors; their statistics in the order of the actors.

        Raises:
            ActorError: as `wait_ready`.
        """
        self.begin_sample(round_index)
        return self.end_sample()

    def begin_sample(self, round_index: int, slot: int = 0) -> None:
        """Sets all actors to one rollout, into this slot of the block."""
        self._sampling = round_index
        self._send_all([("sample", round_index, slot)] * len(self._members))

    def end_sample(self) -> list[dict[str, Any]]:
        """Waits for the rollout that was begun; errors as `wait_ready`."""
        stats = self._gather("done", f"sampling round {self._sampling + 1}")
        self.states = [actor_stats.pop("state") for actor_stats in stats]
        return stats

    def evaluate(self, seeds: Sequence[int], slot: int = 0) -> list[Episode]:
        """One deterministic episode for each seed with this slot's parameters, in the order of the seeds."""
        blocks = blocks_of(seeds)
        episodes: list[Episode] = []
        for start in range(0, len(blocks), len(self._members)):
            batch = blocks[start : start + len(self._members)]
            members = self._members[: len(batch)]
            for member, block in zip(members, batch, strict=True):
                self._send(member, ("evaluate", block, slot))
            for results in self._gather("done", "evaluating", members):
                episodes += results
        return episodes

    def begin_assist(self, num_assistants: int) -> None:
        """Has the first actors help the learner while it trains."""
        self._assistants = self._members[:num_assistants]
        for member in self._assistants:
            self._send(member, ("assist",))

    def end_assist(self) -> None:
        """Waits until they have left the learner."""
        self._gather("done", "assisting the learner", self._assistants)

    def check(self) -> None:
        """Finds out whether an actor has failed or gone while the learner waits for it by other means.

        Raises:
            ActorError: one has.
        """
        for member in self._assistants:
            if member.connection.poll():
                self._gather("nothing", "assisting the learner", [member])

    def close(self) -> None:
        """Asks every actor to stop and makes sure that it has."""
        for member in self._members:
            with contextlib.suppress(OSError):  # already gone
                member.connection.send(("close",))
        deadline = time.monotonic() + _CLOSE_SECONDS
        for member in self._members:
            member.process.join(max(0.0, deadline - time.monotonic()))
            if member.process.is_alive():
                member.process.kill()
                member.process.join()
            member.connection.close()
            member.process.close()
        self._members = []

    def _send_all(self, commands: Sequence[tuple[Any, ...]]) -> None:
        for member, command in zip(self._members, commands, strict=True):
            self._send(member, command)

    def _send(self, member: _Member, command: tuple[Any, ...]) -> None:
        try:
            member.connection.send(command)
        except (BrokenPipeError, OSError):
            raise ActorError(self._epitaph(member, f"before {command[0]}")) from None

    def _gather(self, expected: str, doing: str, members: Sequence[_Member] | None = None) -> list[Any]:
        """The answers of the members, in their order; the first one to fail ends the wait."""
        members = self._members if members is None else members
        answers: dict[int, Any] = {}
        waiting = {member.connection: (i, member) for i, member in enumerate(members)}
        deadline = time.monotonic() + self._timeout
        while waiting:
            remaining = deadline - time.monotonic()
            if remaining <= 0.0:
                late = [member for _, member in waiting.values()]
                raise ActorError(
                    "; ".join(self._place(member) for member in late) + f": no answer while {doing} "
                    f"within actor_timeout_seconds={self._timeout:g}"
                )
            for ready in wait(list(waiting), min(remaining, _POLL_SECONDS)):
                i, member = waiting.pop(ready)  # type: ignore[call-overload]
                try:
                    kind, answer = member.connection.recv()
                except (EOFError, ConnectionResetError):
                    raise ActorError(self._epitaph(member, f"while {doing}")) from None
                if kind == "error":
                    summary, trace = answer
                    raise ActorError(f"{self._place(member)} while {doing}: {summary}\n{trace}")
                assert kind == expected, f"actor answered {kind}, not {expected}"
                answers[i] = answer
        return [answers[i] for i in range(len(members))]

    def _epitaph(self, member: _Member, when: str) -> str:
        member.process.join(_CLOSE_SECONDS)
        code = member.process.exitcode
        how = f"was killed by {signal.Signals(-code).name}" if code is not None and code < 0 else f"exited with {code}"
        return f"{self._place(member)} {how} {when}"

    def _place(self, member: _Member) -> str:
        job = member.job
        step = int(job.block.arrays["progress"][job.actor_id])
        last = job.first_env + job.num_envs - 1
        return f"actor {job.actor_id} of rank {job.rank} (environments {job.first_env}..{last}, step {step})"
