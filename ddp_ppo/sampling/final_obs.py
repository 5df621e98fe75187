"""The last observations of the episodes that ended in a rollout: of an array [T, K, D] the rows that were written.

Few steps end an episode, so the other rows need no memory. Torch-free.

Shapes: T rollout_length, K environments, D observation size, E rows that were written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class FinalObs:
    """Written by `final_obs[step][which] = obs`, with `which` [K] bool; read by `final_obs[mask]`, with mask [T, K]."""

    def __init__(self, num_steps: int, num_envs: int, dtype: str) -> None:
        self._dtype = dtype
        self._place = np.full((num_steps, num_envs), -1, np.int32)  # of each row among those that were written
        self._rows: list[NDArray[Any]] = []
        self._num_rows = 0

    def clear(self) -> None:
        """Forgets all rows: a new rollout begins."""
        self._place.fill(-1)
        self._rows, self._num_rows = [], 0

    def __getitem__(self, key: Any) -> Any:
        """The rows [E, D] of a mask [T, K], in its order; of a step what takes its rows.

        Raises:
            ValueError: a row of the mask was not written.
        """
        if not isinstance(key, np.ndarray):
            return _Step(self, key)
        places = self._place[key]
        if (places < 0).any():
            step, env = np.argwhere(key & (self._place < 0))[0].tolist()
            raise ValueError(
                f"environment {env}, step {step + 1} of the rollout: its episode was truncated, but the loop over the "
                "steps has not written its last observation to rows.final_obs"
            )
        return np.concatenate(self._rows)[places] if self._rows else np.zeros((0, 0), self._dtype)

    def write(self, step: int, which: Any, obs: NDArray[Any]) -> None:
        """Takes a copy of the last observations [E, D] of the environments that `which` selects."""
        envs = np.arange(self._place.shape[1])[which]
        rows = np.array(obs, self._dtype)
        self._place[step, envs] = np.arange(self._num_rows, self._num_rows + len(envs))
        self._rows.append(rows)
        self._num_rows += len(envs)

    def among(self, num_envs: int, own: slice, inside: slice) -> FinalObs:
        """Those of the environments `own` as the environments `inside` of more, which have none."""
        whole = FinalObs(len(self._place), num_envs, self._dtype)
        whole._place[:, inside] = self._place[:, own]
        whole._rows, whole._num_rows = self._rows, self._num_rows
        return whole

    @staticmethod
    def joined(parts: Sequence[FinalObs]) -> FinalObs:
        """Those of several actors together, in the order of their environments."""
        num_steps, num_envs = len(parts[0]._place), sum(part._place.shape[1] for part in parts)
        whole, first = FinalObs(num_steps, num_envs, parts[0]._dtype), 0
        for part in parts:
            own = slice(first, first + part._place.shape[1])
            whole._place[:, own] = np.where(part._place < 0, -1, part._place + whole._num_rows)
            whole._rows += part._rows
            whole._num_rows += part._num_rows
            first = own.stop
        return whole


class _Step(NamedTuple):
    """One step of it, to write to."""

    whole: FinalObs
    step: int

    def __setitem__(self, which: Any, obs: NDArray[Any]) -> None:
        self.whole.write(self.step, which, obs)
