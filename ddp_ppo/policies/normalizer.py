"""How raw observations become what the networks read; the one definition for actors, learners, models and exports.

Torch-free. Shapes: K rows, D observation size.
"""

from __future__ import annotations

import math

import numpy as np

from ddp_ppo.maths.moments import RmsState
from ddp_ppo.observations.layout import View, columns_of, view_size
from ddp_ppo.protocols import FloatArray

OBS_CLIP = 10.0  # normalised observations are held inside +-10 (standard deviations)
VARIANCE_FLOOR = 1e-8  # added to a variance before its root is divided by


def reward_scale(state: RmsState) -> float:
    """The factor of every reward: 1 / the standard deviation of the discounted returns, whose statistics are given."""
    return 1.0 / math.sqrt(float(state["var"][0]) + VARIANCE_FLOOR)


class Normalizer:
    """clip((obs - mean) / sqrt(var + 1e-8), -10, 10) in float32; without a state obs times a scale.

    The network's first layer takes over the factor inv_std, which saves a pass. The mean it can not take over: columns
    with a large offset would lose their digits. Constants are repeated for each row, because NumPy takes three times
    as long to broadcast a small array as to compute with one of the same shape.
    """

    def __init__(self, size: int, num_rows: int = 1, scale: float = 1.0, view: View = ()) -> None:
        """Normalises the columns of a view of rows [num_rows, D]; `size` is D."""
        self._scale, self._columns = scale, columns_of(view)
        size = view_size(view, size)
        self.mean = np.zeros(size, np.float32)
        self.inv_std = np.ones(size, np.float32)
        self.clip = np.inf
        self._mean = np.zeros((num_rows, size), np.float32)
        self._low = np.full((num_rows, size + 1), -np.inf, np.float32)
        self._high = np.full((num_rows, size + 1), np.inf, np.float32)

    def load(self, state: RmsState | None) -> None:
        """Freezes this state until the next call; None is the scale alone."""
        self.mean[:] = 0.0 if state is None else state["mean"][self._columns]
        self.inv_std[:] = self._scale if state is None else 1.0 / np.sqrt(state["var"][self._columns] + VARIANCE_FLOOR)
        self.clip = np.inf if state is None else OBS_CLIP
        self._mean[:] = self.mean
        self._high[:, :-1] = self.clip / self.inv_std
        self._low[:, :-1] = -self._high[:, :-1]

    def centre(self, obs: FloatArray, out: FloatArray) -> None:
        """Writes obs [num_rows, D], normalised but for the factor inv_std, to out, whose last column stays 1."""
        np.subtract(obs[self._columns], self._mean, out[:, :-1])
        np.maximum(out, self._low, out=out)
        np.minimum(out, self._high, out=out)
