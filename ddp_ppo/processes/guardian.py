"""Ends what environments have started and left behind, however their learner ends, even if it is killed.

Whatever an actor starts inherits a mark in its environment variables. A small process in a session of its own waits
until the learner has closed its pipe or is gone, and then kills what still has the mark. Linux only, as the marks are
read from /proc; elsewhere only an actor's process group ends with it. This file also runs as a script and imports
nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

VARIABLE = "DDP_PPO_ACTOR"
_GRACE_SECONDS = 1.0  # for what ends by itself, such as a resource tracker that has to clean up
_KILL_SECONDS = 5.0
_POLL_SECONDS = 0.02


class Guardian:
    """The process that waits; `mark` is the beginning of the value that VARIABLE has in the actors of its learner."""

    def __init__(self) -> None:
        self.mark = f"{os.getpid()}-{uuid.uuid4().hex}"
        self._process: subprocess.Popen[bytes] | None = None
        if Path("/proc/self/environ").exists():
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, self.mark],  # 10 ms and 8 MB without site-packages
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # signals to the learner's group, such as Ctrl-C, are not for it
            )

    def close(self) -> None:
        """Has it kill what is left now, and waits until it has."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE_SECONDS + _KILL_SECONDS)
            self._process = None


def end_marked(mark: str, grace_seconds: float = 0.0) -> None:
    """Kills the processes whose mark begins so, after some time in which they may end by themselves."""
    start = time.monotonic()
    while (found := _marked(mark)) and (elapsed := time.monotonic() - start) < grace_seconds + _KILL_SECONDS:
        if elapsed >= grace_seconds:
            for pid in found:
                _kill(pid, mark)
        time.sleep(_POLL_SECONDS)


def _marked(mark: str) -> list[int]:
    pids = [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]
    return [pid for pid in pids if _has_mark(pid, mark)]


def _has_mark(pid: int, mark: str) -> bool:
    """Whether a process that still runs has the mark; those of other users cannot be read."""
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"\0{VARIABLE}={mark}".encode() in b"\0" + environ


def _kill(pid: int, mark: str) -> None:
    with contextlib.suppress(OSError):  # it has ended
        handle = os.pidfd_open(pid)  # from here on the number cannot come to mean another process
        try:
            if _has_mark(pid, mark):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)


if __name__ == "__main__":
    sys.stdin.buffer.read()  # until the learner closes its end or is gone
    end_marked(sys.argv[1], _GRACE_SECONDS)
