"""What this machine offers to this process: cores, memory, GPUs; the one place that asks.

Cores are those that the process may run on (its affinity) and that its control groups let it use (a container's or a
job's CPU quota, versions 1 and 2); memory is what is installed or what its control groups allow, whichever is less.
Torch is loaded only to count GPUs.
Source: the kernel's documents on cgroup-v1, cgroup-v2 and proc (mountinfo).
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

ROOT = Path("/")
Number = TypeVar("Number", int, float)


class Machine(NamedTuple):
    """What the process may use.

    Attributes:
        num_cores: complete cores, at least 1: a quota of 2.5 cores lets two processes run at full speed.
        num_allowed: cores of its affinity, which a quota may let it use in part.
        quota: cores of its CPU quota, None without one.
        memory_bytes: the limit of its memory.
        installed_bytes: the machine's memory.
        processor: the processor's architecture, such as "x86_64".
    """

    num_cores: int
    num_allowed: int
    quota: float | None
    memory_bytes: int
    installed_bytes: int
    processor: str

    def describe(self) -> str:
        """One line for a person."""
        cores = f"{self.num_allowed} cores" if self.num_allowed != 1 else "1 core"
        if self.quota is not None and self.quota < self.num_allowed:
            cores += f", of which a quota allows {self.quota:g}"
        memory = f"{self.memory_bytes / 2**30:.1f} GiB of memory"
        if self.memory_bytes < self.installed_bytes:
            memory += f" (a limit; {self.installed_bytes / 2**30:.1f} GiB are installed)"
        return f"{cores}, {memory}"


def this_machine(root: Path = ROOT) -> Machine:
    """Asks now; `root` stands for `/` where the kernel's files are read."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = min(_quotas(root), default=None)
    usable = allowed if quota is None else min(allowed, max(1, math.floor(quota)))
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    memory = min([installed, *_limits(root, {"": ["memory.max"], "memory": ["memory.limit_in_bytes"]}, _bytes)])
    return Machine(usable, allowed, quota, memory, installed, platform.machine())


def num_cuda_devices() -> int:
    """CUDA GPUs that torch sees."""
    import torch

    return torch.cuda.device_count()


def has_mps() -> bool:
    """Whether torch can use Apple's GPU."""
    import torch

    return torch.backends.mps.is_available()


def _quotas(root: Path) -> Iterator[float]:
    """The CPU quotas, in cores, of the control groups that the process is in."""
    files = {"": ["cpu.max"], "cpu": ["cpu.cfs_quota_us", "cpu.cfs_period_us"]}
    return _limits(root, files, _cores)


def _cores(texts: list[str]) -> float | None:
    """Of "50000 100000" (version 2) or of quota and period (version 1); None without a quota."""
    quota, period = " ".join(texts).split()
    return None if quota == "max" or int(quota) < 0 else int(quota) / int(period)


def _bytes(texts: list[str]) -> int | None:
    return None if texts[0] == "max" else int(texts[0])


def _limits(root: Path, files: dict[str, list[str]], read: Callable[[list[str]], Number | None]) -> Iterator[Number]:
    """The limits in the process's control groups and all groups above; `files` by controller, "" for version 2."""
    for controller, folder, top in _groups(root):
        while controller in files:
            with suppress(OSError, ValueError):
                limit = read([(folder / name).read_text().strip() for name in files[controller]])
                if limit is not None:
                    yield limit
            if folder == top:
                break
            folder = folder.parent


def _groups(root: Path) -> Iterator[tuple[str, Path, Path]]:
    """Controller, folder of the process's control group, and the folder where its hierarchy is mounted."""
    try:
        own = [line.split(":", 2) for line in (root / "proc/self/cgroup").read_text().splitlines()]
        mounts = (root / "proc/self/mountinfo").read_text().splitlines()
    except OSError:  # no Linux
        return
    for mount in mounts:
        before, _, after = mount.partition(" - ")
        kind, _, options = after.split(" ", 2)
        mounted, point = before.split(" ")[3:5]
        controllers = {""} if kind == "cgroup2" else set(options.split(",")) if kind == "cgroup" else set()
        for _, names, path in own:
            for controller in controllers & set(names.split(",")):
                top = root / point.lstrip("/")
                inside = os.path.relpath(path, mounted)  # a container may see a part of the hierarchy as its root
                folder = top / inside if not inside.startswith("..") else top
                yield controller, folder if folder.is_dir() else top, top
