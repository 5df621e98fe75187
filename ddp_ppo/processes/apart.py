"""Runs a function in a new process, where nothing but its arguments and importable modules is known. Torch-free."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any

from ddp_ppo.processes.lifetime import die_with_parent, inherited, lead_group


class ApartError(RuntimeError):
    """What the function has raised there, or how its process has ended, in one line."""


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
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(theirs, task, arguments), daemon=True)
    with inherited(variables or {}):
        child.start()
    theirs.close()
    pid = child.pid
    assert pid
    try:
        if not ours.poll(seconds):
            raise ApartError(f"no answer within {seconds:g} s")
        has_worked, answer = ours.recv()
    except EOFError:
        child.join()
        raise ApartError(f"its process has ended with status {child.exitcode}") from None
    finally:
        with contextlib.suppress(OSError):  # it leads no group yet, or has ended
            os.killpg(pid, signal.SIGKILL)
        child.kill()
        child.join()
        ours.close()
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
