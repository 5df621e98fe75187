"""The other learners of this launch on this node, as the kernel sees them (Linux). Torch-free.

They are children of the same launcher with the same meeting place in their environment, so no other run's process can
be among them. Elsewhere nothing is known of them.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

_LAUNCH = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE")
_STOPPED = "T"  # by SIGSTOP or SIGTSTP


def learners_here() -> dict[int, tuple[int, bool]]:
    """Rank -> (pid, whether it is stopped) of the learners that live, this one included; empty where nobody can say."""
    own = _look(os.getpid())
    if own is None:
        return {}
    pids = (int(entry.name) for entry in Path("/proc").glob("[0-9]*"))
    seen = {pid: found for pid in pids if (found := _look(pid)) is not None and found[:2] == own[:2]}
    return {rank: (pid, state == _STOPPED) for pid, (_, _, rank, state) in seen.items()}


def end_stopped() -> list[int]:
    """Kills the learners that are stopped, and returns their ranks: no other signal reaches them."""
    ended = []
    for rank, (pid, is_stopped) in learners_here().items():
        if is_stopped:
            with suppress(ProcessLookupError):
                handle = os.pidfd_open(pid)  # from here on the number cannot come to mean another process
                try:
                    if learners_here().get(rank) == (pid, True):
                        signal.pidfd_send_signal(handle, signal.SIGKILL)
                        ended.append(rank)
                finally:
                    os.close(handle)
    return ended


def _look(pid: int) -> tuple[int, tuple[str, ...], int, str] | None:
    """Parent, launch, rank and state of a process; None where it is no learner, a zombie, or cannot be looked at."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[:2]
        entries = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return None
    environ = dict(entry.partition("=")[::2] for entry in entries)
    rank = environ.get("RANK", "")
    return (int(parent), tuple(environ.get(name, "") for name in _LAUNCH), int(rank), state) if rank.isdigit() else None
