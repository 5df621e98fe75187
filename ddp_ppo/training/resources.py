"""What a learner and its actors take of the machine, as metrics: memory, busy cores, GPU memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

import torch

from ddp_ppo.processes.usage import Usage, usage_of, usage_with_children
from ddp_ppo.runs.metric_table import (
    ACTOR_CORES,
    ACTOR_MEMORY,
    GPU_MEMORY,
    LARGEST_ACTOR,
    LEARNER_CORES,
    LEARNER_MEMORY,
)

INTERVAL_SECONDS = 0.5  # a look takes 0.05 ms for each process, and the kernel counts CPU time in steps of 10 ms


class ResourceMeter:
    """Looks at the processes of one learner every half second; in between, the last look counts."""

    def __init__(self, actor_pids: Callable[[], Sequence[int]], device: torch.device) -> None:
        """Begins to count CPU time.

        Args:
            actor_pids: the actors' process numbers, which change where an actor is replaced.
            device: of the learner.
        """
        self._actor_pids, self._device = actor_pids, device
        self._time, self._learner, self._actors = time.perf_counter(), *self._look()
        self._metrics: dict[str, float] = {}

    def read(self) -> dict[str, float]:
        """The metrics; NaN where the system does not tell. GPU memory only with a GPU."""
        now = time.perf_counter()
        if not self._metrics or now >= self._time + INTERVAL_SECONDS:
            learner, actors = self._look()
            seconds = now - self._time
            before = sum(actor.cpu_seconds for actor in self._actors)
            self._metrics = {
                LEARNER_MEMORY: learner.memory_mib,
                LEARNER_CORES: (learner.cpu_seconds - self._learner.cpu_seconds) / seconds,
                ACTOR_MEMORY: sum(actor.memory_mib for actor in actors),
                LARGEST_ACTOR: max(actor.memory_mib for actor in actors),
                # less than before if an actor was replaced meanwhile
                ACTOR_CORES: max(0.0, sum(actor.cpu_seconds for actor in actors) - before) / seconds,
                **self._gpu(),
            }
            self._time, self._learner, self._actors = now, learner, actors
        return self._metrics

    def _look(self) -> tuple[Usage, list[Usage]]:
        return usage_of(os.getpid()), [usage_with_children(pid) for pid in self._actor_pids()]

    def _gpu(self) -> dict[str, float]:
        if self._device.type != "cuda":
            return {}
        return {GPU_MEMORY: torch.cuda.memory_reserved(self._device) / 2**20}
