"""What the robots are asked to do: drawn from time to time, or a fixed schedule.

Shapes: K environments, n of them, C values of a command.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.tasks.vectorised.design import Commands
from ddp_ppo.tasks.vectorised.streams import Streams

Ids = NDArray[np.int32]


class CommandState:
    """The commands of K environments.

    Attributes:
        value: [K, C].
        wait: steps [K] until the next draw.
    """

    def __init__(self, commands: Commands, num_envs: int, *, step_seconds: float) -> None:
        self.value = np.zeros((num_envs, len(commands.columns)))
        self.wait = np.zeros(num_envs, np.int64)
        self._commands, self._step_seconds = commands, step_seconds
        self._low, self._high = np.array(commands.low), np.array(commands.high)
        rows = np.array(commands.schedule or [(1.0, *np.zeros(len(commands.columns)))])
        self._until, self._rows = np.cumsum(rows[:, 0]), rows[:, 1:]

    def advance(self, elapsed: NDArray[np.int64], streams: Streams, progress: float) -> None:
        """Draws the commands that are due, or follows the schedule, `elapsed` steps [K] after each episode's start."""
        if self._commands.schedule:
            seconds = elapsed * self._step_seconds % self._until[-1]
            row = np.searchsorted(self._until, seconds + 1e-9, side="right")
            self.value[:] = self._rows[np.minimum(row, len(self._rows) - 1)]
            return
        self.wait -= 1
        due = np.flatnonzero(self.wait <= 0).astype(np.int32)
        if len(due):
            self.draw(due, streams, progress)

    def draw(self, ids: Ids, streams: Streams, progress: float) -> None:
        """Draws new commands for environments."""
        commands, size = self._commands, self.value.shape[1]
        if commands.schedule:
            self.value[ids] = self._rows[0]
            return
        drawn = streams.uniform(size + 2, ids=ids)
        share = commands.first_fraction + (1.0 - commands.first_fraction) * min(max(progress, 0.0), 1.0)
        values = share * (self._low + drawn[:, :size] * (self._high - self._low))
        values[drawn[:, size] < commands.neutral_probability] = 0.0
        self.value[ids] = values
        shortest, longest = commands.interval_seconds
        seconds = shortest + drawn[:, size + 1] * (longest - shortest)
        self.wait[ids] = np.maximum(np.rint(seconds / self._step_seconds), 1)
