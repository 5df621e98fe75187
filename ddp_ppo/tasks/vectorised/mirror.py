"""Left-right symmetry of a task: what an observation and an action become if left and right are swapped.

Shapes: D observation size, A action size.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.protocols import FloatArray
from ddp_ppo.tasks.vectorised.design import Design


@dataclass(frozen=True)
class Mirror:
    """Column i of a mirrored row is `sign[i] * row[index[i]]`."""

    obs_index: NDArray[np.int64]  # [D]
    obs_sign: FloatArray  # [D]
    act_index: NDArray[np.int64]  # [A]
    act_sign: FloatArray  # [A]

    def obs(self, obs: FloatArray) -> FloatArray:
        """Mirrored observations [..., D]."""
        return obs[..., self.obs_index] * self.obs_sign

    def action(self, action: FloatArray) -> FloatArray:
        """Mirrored actions [..., A]."""
        return action[..., self.act_index] * self.act_sign


def mirror_of(design: Design) -> Mirror | None:
    """The symmetry that a design declares."""
    if not design.action_mirror:
        return None
    rows, start = list[tuple[int, float]](), 0
    for group in design.obs:
        own = group.mirror or tuple((index, 1.0) for index in range(len(group.columns)))
        rows += [(start + index, sign) for index, sign in own]
        start += len(group.columns)
    return Mirror(*_split(rows), *_split(design.action_mirror))


def _split(rows: Iterable[tuple[int, float]]) -> tuple[NDArray[np.int64], FloatArray]:
    index, sign = zip(*rows, strict=True)
    return np.array(index, np.int64), np.array(sign, np.float32)
