"""Horizontal pushes on a body at random times.

Shapes: K environments, n of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.tasks.vectorised.design import Pushes
from ddp_ppo.tasks.vectorised.streams import Streams

Ids = NDArray[np.int32]


class PushState:
    """The pushes of K environments.

    Attributes:
        force: [K, 3] in N along the world's axes; 0 between pushes.
        wait: steps [K] until the next push begins.
        left: steps [K] until the current one ends.
    """

    def __init__(self, pushes: Pushes, num_envs: int, *, step_seconds: float) -> None:
        self.force = np.zeros((num_envs, 3))
        self.wait = np.zeros(num_envs, np.int64)
        self.left = np.zeros(num_envs, np.int64)
        self._pushes, self._step_seconds = pushes, step_seconds

    def advance(self, streams: Streams) -> None:
        """One step passes: pushes end, others begin."""
        self.left -= 1
        self.force *= (self.left > 0)[:, None]
        self.wait -= 1
        due = np.flatnonzero(self.wait == 0).astype(np.int32)
        if len(due):
            self._begin(due, streams)

    def schedule(self, ids: Ids, streams: Streams) -> None:
        """Ends the pushes of environments and draws when the next ones begin."""
        self.force[ids], self.left[ids] = 0.0, 0
        self._wait(ids, streams.uniform(1, ids=ids)[:, 0])

    def _begin(self, ids: Ids, streams: Streams) -> None:
        drawn = streams.uniform(3, ids=ids)
        self.force[ids, :2] = (2.0 * drawn[:, :2] - 1.0) * self._pushes.max_force
        self.left[ids] = max(round(self._pushes.seconds / self._step_seconds), 1)
        self._wait(ids, drawn[:, 2])

    def _wait(self, ids: Ids, drawn: NDArray[np.float64]) -> None:
        shortest, longest = self._pushes.interval_seconds
        self.wait[ids] = np.maximum(np.rint((shortest + drawn * (longest - shortest)) / self._step_seconds), 1)
