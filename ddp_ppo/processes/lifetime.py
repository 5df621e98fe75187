"""Processes: one that ends with its parent, however that ends; time limits, stopped ones, lost readers. Torch-free."""

from __future__ import annotations

import ctypes
import io
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_POLL_SECONDS = 1.0
_CONNECT_SECONDS = 5.0
_AGENT_SECONDS = 3.0  # that a killed agent may take to end on a busy machine


def die_with_parent(parent: int | None = None) -> None:
    """Has the kernel (Linux) or a thread that looks every second (elsewhere) end this process when its parent dies.

    Args:
        parent: its process number where it is known: it may have died before this call.
    """
    parent = parent or os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the call
            os._exit(1)
    else:
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def die_with_agent(environ: Mapping[str, str]) -> None:
    """The same for a worker of torchrun, whose agent may be gone, and its store with it, before the worker begins."""
    die_with_parent()
    if environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        try:
            address = environ["MASTER_ADDR"], int(environ["MASTER_PORT"])
            connection = socket.create_connection(address, _CONNECT_SECONDS)
        except ConnectionRefusedError:
            os._exit(1)
        except OSError:
            return  # an address that cannot be reached from here says nothing of the agent
        threading.Thread(target=_watch_agent, args=(connection,), daemon=True).start()


def lead_group() -> None:
    """Makes this process the leader of a session and group that may have children, which ends as one.

    INT, TERM and HUP are for whoever has started it to act on: it does not hear them, but its children do.
    """
    multiprocessing.current_process().daemon = False  # multiprocessing allows a daemon no children
    os.setsid()
    for number in _ASKING:
        signal.signal(number, _unheard)  # not SIG_IGN, which children would inherit
    os.register_at_fork(after_in_child=_hear)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ASKING)


def _unheard(number: int, frame: object) -> None:
    """The signal is for another process."""


def _hear() -> None:
    """In a forked child: signals do what they do in any process."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@contextmanager
def inherited(variables: Mapping[str, str]) -> Iterator[None]:
    """Has the processes that are started here inherit environment variables that this one does not keep."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def is_stopped(pid: int) -> bool:
    """Whether a signal or a debugger has stopped a process, as far as Linux can be asked."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return words.rpartition(")")[2].split()[0] in ("T", "t")


def outlast_readers(error: type[OSError] = OSError) -> None:
    """Has this process drop what it prints where it cannot be written: the reader is gone, the disk is full.

    Args:
        error: what is dropped; with BrokenPipeError a full disk still is an error.
    """
    for number, name in ((1, "stdout"), (2, "stderr")):
        old = getattr(sys, name)
        if old is not None:
            buffer = io.BufferedWriter(_Dropping(number, error))
            encoding, by_line = old.encoding, old.line_buffering
            stream = io.TextIOWrapper(buffer, encoding, "backslashreplace", line_buffering=by_line)
            setattr(sys, name, stream)


class _Dropping(io.FileIO):
    def __init__(self, number: int, error: type[OSError]) -> None:
        super().__init__(number, "w", closefd=False)
        self._error = error

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except self._error:
            return len(data)


@contextmanager
def time_limit(seconds: float, overdue: BaseException) -> Iterator[None]:
    """Has what runs for longer raise `overdue`, where the main thread can be interrupted; 0 is no limit.

    Who has stopped in Python's debugger by then has all the time.
    """

    def give_up(number: int, frame: object) -> None:
        if not _is_in_debugger():
            raise overdue

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, give_up)
    seconds_left, _ = signal.setitimer(signal.ITIMER_REAL, seconds)  # of a limit around this one
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, seconds_left)


def _is_in_debugger() -> bool:
    debugger = type(getattr(sys.gettrace(), "__self__", None))
    return any(kind.__module__ == "bdb" for kind in debugger.__mro__)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_SECONDS)
    os._exit(1)


def _watch_agent(connection: socket.socket) -> None:
    """Ends this process where its agent was dying, no longer its parent, when the kernel still took the connection."""
    with connection:
        connection.settimeout(_AGENT_SECONDS)
        try:
            is_gone = connection.recv(1) == b""
        except TimeoutError:  # a store that lives is silent until it is asked
            is_gone = False
        except OSError:
            is_gone = True
    if is_gone:
        os._exit(1)
