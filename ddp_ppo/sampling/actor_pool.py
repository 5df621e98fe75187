"""The learner's side of its actors: starts them, sends commands, gathers answers, and replaces lost ones.

An actor that is killed, exits or hangs is started again where it stood before its last command, which it then repeats:
with the same streams it does the same. An exception in an environment would only happen again, so it ends the run.
Every wait has a limit: an actor hangs if it neither answers nor steps its environments for so long. Torch-free.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from typing import Any, NoReturn

from ddp_ppo.processes.guardian import Guardian
from ddp_ppo.processes.lifetime import is_stopped
from ddp_ppo.protocols import ActorReport, PlainState
from ddp_ppo.sampling.actor import ActorJob
from ddp_ppo.sampling.actor_process import ActorProcess
from ddp_ppo.sampling.episodes import Episode, blocks_of

_ADVICE = '; a program that trains is a file, as actors import it again, and trains below `if __name__ == "__main__":`'
_POLL_SECONDS = 1.0
_CLOSE_SECONDS = 5.0
_HURRIED_CLOSE_SECONDS = 1.0  # after an error, when actors may be busy for long


class ActorError(RuntimeError):
    """An actor failed; the message says which one, where, and why, with its own traceback below.

    Attributes:
        job, state: of an actor that met a bad value, and where its environments stood before the rollout.
        where: the bad value, see `finite.NotFinite`; None for every other failure.
    """

    job: ActorJob
    state: PlainState | None = None
    where: dict[str, Any] | None = None


class ActorPool:
    """The running actors of one learner; closes them when it is left as a context."""

    def __init__(
        self,
        jobs: Sequence[ActorJob],
        *,
        timeout_seconds: float,
        max_restarts: int = 0,
        on_restart: Callable[[str], None] = lambda what: None,
        say: Callable[[str], None] = lambda what: None,
    ) -> None:
        """Starts one process for each job.

        Args:
            timeout_seconds: longest wait for an answer or for the next step of the actor's environments.
            max_restarts: lost actors that are replaced, all together, before one ends the run.
            on_restart: is told of each replaced actor what became of it.
            say: is called with notes of actors, and a warning if environments could not be closed.
        """
        self._timeout = timeout_seconds
        self._restarts_left = max_restarts
        self._on_restart = on_restart
        self._say = say
        self._guardian = Guardian()
        self._members: list[ActorProcess] = []
        self._doing = "starting"
        try:
            for job in jobs:
                self._members.append(ActorProcess(job, self._guardian.mark))
        except OSError as error:
            self.close()
            raise ActorError(f"actor {job.actor_id} of rank {job.rank} cannot be started: {error}") from error
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> ActorPool:
        return self

    def __exit__(self, error_type: type[BaseException] | None = None, *error: object) -> None:
        self.close(_CLOSE_SECONDS if error_type is None else _HURRIED_CLOSE_SECONDS)

    @property
    def states(self) -> list[PlainState]:
        """Where the actors stood after their last rollout."""
        return [member.state for member in self._members if member.state is not None]

    @property
    def pids(self) -> list[int]:
        """The process numbers of the actors, in their order."""
        return [member.process.pid or 0 for member in self._members]

    def wait_ready(self) -> None:
        """Waits until every actor has built its environments.

        Raises:
            ActorError: one failed, exited or took longer than the time limit.
        """
        for member, state in zip(self._members, self._gather(self._members), strict=True):
            member.state = state

    def restore(self, states: Sequence[PlainState]) -> None:
        """Sets the environments to saved states, one for each actor in order."""
        self._doing = "restoring its environments"
        for member, state in zip(self._members, states, strict=True):
            self._tell(member, "restore", state)
        self._gather(self._members)

    def sample(self, round_index: int) -> list[ActorReport]:
        """One rollout by all actors; their reports in the order of the actors.

        Raises:
            ActorError: as `wait_ready`.
        """
        self.begin_sample(round_index)
        return self.end_sample()

    def begin_sample(self, round_index: int, slot: int = 0) -> None:
        """Sets all actors to one rollout, into this slot of the block."""
        self._doing = f"sampling round {round_index + 1}"
        for member in self._members:
            self._tell(member, "sample", round_index, slot)

    def end_sample(self) -> list[ActorReport]:
        """Waits for the rollout that was begun; errors as `wait_ready`."""
        reports: list[ActorReport] = self._gather(self._members)
        for member, report in zip(self._members, reports, strict=True):
            member.state = report.state
        return reports

    def evaluate(self, seeds: Sequence[int], slot: int = 0) -> list[Episode]:
        """One deterministic episode for each seed with this slot's parameters, in the order of the seeds."""
        self._doing = "evaluating"
        blocks = blocks_of(seeds)
        episodes: list[Episode] = []
        for start in range(0, len(blocks), len(self._members)):
            batch = blocks[start : start + len(self._members)]
            members = self._members[: len(batch)]
            for member, block in zip(members, batch, strict=True):
                self._tell(member, "evaluate", block, slot)
            for results in self._gather(members):
                episodes += results
        return episodes

    def begin_assist(self) -> None:
        """Has the first actor help the learner while it trains."""
        self._doing = "assisting the learner"
        self._tell(self._members[0], "assist")
        self._listen(self._members[:1], left=1)  # until it does so, if it had to be replaced

    def end_assist(self) -> None:
        """Waits until it has left the learner."""
        self._gather(self._members[:1])

    def is_assistant_lost(self, seconds: float) -> bool:
        """Whether the assistant is gone, or has kept the learner waiting for longer than the time limit: then it ends.

        Raises:
            ActorError: it has failed.
        """
        member = self._members[0]
        if seconds > self._timeout:
            member.fate = self._lateness(member)
            member.process.kill()
            member.process.join(_CLOSE_SECONDS)
        if not member.connection.poll():
            return not member.process.is_alive()
        kind, answer = "", None
        with contextlib.suppress(EOFError, OSError):
            kind, answer = member.connection.recv()
        if kind == "error":
            self._raise(member, answer)
        return True

    def replace_assistant(self) -> None:
        """Starts a lost assistant again and has it help again; errors as `sample`."""
        self._replace(self._members[0], self._epitaph(self._members[0]))
        self._listen(self._members[:1], left=1)

    def close(self, seconds: float = _CLOSE_SECONDS) -> None:
        """Asks every actor to stop and makes sure that it has within this time."""
        for member in self._members:
            with contextlib.suppress(OSError):  # already gone
                member.connection.send(("close",))
        deadline = time.monotonic() + seconds
        troubles = []
        for member in self._members:
            place = self._place(member)
            if trouble := member.stop(max(0.0, deadline - time.monotonic())):
                troubles.append(f"{place}: {trouble}")
        self._members = []
        self._guardian.close()
        if troubles and seconds == _CLOSE_SECONDS:  # in a hurry nobody waits for environments
            more = f", and {len(troubles) - 1} more" if len(troubles) > 1 else ""
            self._say(f"warning: environments were not closed properly: {troubles[0]}{more}; see their close()")

    def _tell(self, member: ActorProcess, *command: Any) -> None:
        try:
            member.tell(command)
        except OSError:
            self._replace(member, self._epitaph(member))

    def _gather(self, members: Sequence[ActorProcess]) -> list[Any]:
        """What the members answer to what they were told last, in their order."""
        self._listen(members, left=0)
        return [member.answer for member in members]

    def _listen(self, members: Sequence[ActorProcess], *, left: int) -> None:
        """Hears the members until each has at most so many commands left to answer; the lost are replaced meanwhile."""
        for member in members:
            member.watch()
        while busy := [member for member in members if len(member.to_do) > left]:
            ready = wait([member.connection for member in busy], _POLL_SECONDS)
            for member in busy:
                if member.connection in ready:
                    self._receive(member)
                elif not ready and member.is_lost:
                    self._replace(member, self._epitaph(member))
                elif member.silent_seconds() > self._timeout:
                    self._replace(member, self._lateness(member))

    def _receive(self, member: ActorProcess) -> None:
        """Takes the answer that has come from a member, which may turn out to be gone."""
        try:
            kind, answer = member.receive()
        except (EOFError, OSError):
            self._replace(member, self._epitaph(member))
            return
        if kind == "error":
            self._raise(member, answer)
        if kind == "note":
            self._say(f"note: {answer}")

    def _raise(self, member: ActorProcess, answer: Any) -> NoReturn:
        summary, trace, where = answer
        lost = ActorError(f"{self._place(member)} while {self._doing}: {summary}\n{trace}")
        lost.job, lost.state, lost.where = member.job, member.state, where
        raise lost

    def _replace(self, member: ActorProcess, what: str) -> None:
        """Starts a lost actor again; `_listen` then has it do again what it has not answered.

        Raises:
            ActorError: it was lost before it stood where it had stood before, or too many have been lost.
        """
        if member.state is None or not self._restarts_left:
            member.process.kill()  # it may hang; closing should not wait for it
            raise ActorError(what)
        self._restarts_left -= 1
        self._on_restart(f"{what}; it is restarted, {self._restarts_left} more restarts")
        member.restart()
        member.watch()

    def _lateness(self, member: ActorProcess) -> str:
        limit = f"actor_timeout_seconds={self._timeout:g}"
        why = " (the process is stopped: SIGCONT lets it go on)" if is_stopped(member.process.pid or 0) else ""
        return f"{self._place(member)}: neither an answer nor a step while {self._doing} within {limit}{why}"

    def _epitaph(self, member: ActorProcess) -> str:
        if member.fate is not None:
            return member.fate
        member.process.join(_CLOSE_SECONDS)
        code = member.process.exitcode
        how = f"was killed by {signal.Signals(-code).name}" if code is not None and code < 0 else f"exited with {code}"
        return f"{self._place(member)} {how} while {self._doing}{_ADVICE if self._doing == 'starting' else ''}"

    def _place(self, member: ActorProcess) -> str:
        job = member.job
        last = job.first_env + job.num_envs - 1
        return f"actor {job.actor_id} of rank {job.rank} (environments {job.first_env}..{last}, step {member.progress})"
