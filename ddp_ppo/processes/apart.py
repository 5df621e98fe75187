"""Runs a function in a new process, where nothing but its arguments and importable modules is known. Torch-free."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from ddp_ppo.processes.lifetime import die_with_parent, inherited, lead_group


class ApartError(RuntimeError):
    """What the function has raised there, or how its process has ended, in one line."""


@contextlib.contextmanager
def new_process(
    target: Callable[..., None], *arguments: Any, variables: Mapping[str, str] | None = None
) -> Iterator[tuple[Connection, BaseProcess]]:
    """A spawned process and the end of a pipe that hears it; it and what it has started are killed at the exit.

    Args:
        target: is called there with the other end and the arguments; should call `lead_group` first.
        variables: environment variables of the process that differ from this one's.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=target, args=(theirs, *arguments), daemon=True)
    with inherited(variables or {}):
        child.start()
    theirs.close()
    pid = child.pid
    assert pid
    try:
        yield ours, child
    finally:
        with contextlib.suppress(OSError):  # it leads no group yet, or has ended
            os.killpg(pid, signal.SIGKILL)
        child.kill()
        child.join()
        ours.close()


def run_apart(
    task: Callable[..., Any], *arguments: Any, seconds: float, variables: Mapping[str, str] | None = None
) -> Any:
    """What the function returns there; everything travels pickled, and the process ends with all that it has started.

    Args:
        seconds: longest that it may take.
        variables: environment variables of the process that differ from this one's.

    Raises:
        ApartError: it raises there, takes too long, or its process ends.
    """
    with new_process(_child, task, arguments, variables=variables) as (connection, child):
        try:
            if not connection.poll(seconds):
                raise ApartError(f"no answer within {seconds:g} s")
            has_worked, answer = connection.recv()
        except EOFError:
            child.join()
            raise ApartError(f"its process has ended with status {child.exitcode}") from None
    if not has_worked:
        raise ApartError(answer)
    return answer


def _child(connection: Connection, task: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    lead_group()
    die_with_parent()
    try:
        answer = True, task(*arguments)
    except Exception as error:
        answer = False, " ".join(f"{type(error).__name__}: {error}".split())
    connection.send(answer)
