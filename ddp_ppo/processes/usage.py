"""Memory and CPU time of processes, as the kernel counts them. Torch-free.

On Linux any process can be asked about; elsewhere only this one. Source: proc(5), stat and children.
"""

from __future__ import annotations

import math
import os
import resource
import sys
from typing import NamedTuple

_MIB = 2**20
_NAME_END = b")"  # of the program's name, which may hold spaces


class Usage(NamedTuple):
    """What a process uses; NaN if nobody can say.

    Attributes:
        memory_mib: resident memory; pages that it shares with others are included.
        cpu_seconds: CPU time of all its threads since its start, and of the children that it has waited for.
    """

    memory_mib: float
    cpu_seconds: float


def usage_of(pid: int) -> Usage:
    """The process with this number."""
    try:
        stat = _read(f"/proc/{pid}/stat")
    except OSError:
        return _own() if pid == os.getpid() else Usage(math.nan, math.nan)
    fields = stat[stat.rindex(_NAME_END) + 2 :].split()  # from field 3 on
    ticks = sum(map(int, fields[11:15]))  # 14 to 17: utime, stime, cutime, cstime
    pages = int(fields[21])  # 24: rss
    return Usage(pages * os.sysconf("SC_PAGE_SIZE") / _MIB, ticks / os.sysconf("SC_CLK_TCK"))


def usage_with_children(pid: int) -> Usage:
    """The process and all below it, such as a simulator that an environment has started from its main thread."""
    own = usage_of(pid)
    try:
        below = [usage_with_children(int(child)) for child in _read(f"/proc/{pid}/task/{pid}/children").split()]
    except OSError:  # another system, or it has just ended
        return own
    known = [own, *(one for one in below if not math.isnan(one.memory_mib))]
    return Usage(*map(sum, zip(*known, strict=True)))


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 65536)
    finally:
        os.close(descriptor)


def _own() -> Usage:
    """This process without /proc: the most memory that it has had, in place of that of now."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss, in bytes
    return Usage(used.ru_maxrss * unit / _MIB, used.ru_utime + used.ru_stime)
