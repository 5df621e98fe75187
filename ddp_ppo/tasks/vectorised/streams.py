"""One stream of random numbers for each environment, drawn for all of them at once.

Value n of a stream is a hash of (key, n), so a draw needs no generator object, a stream's state is two integers, and
what an environment draws depends on its seed alone, whichever other environments are drawn with it.
Source: SplitMix64 (Steele, Lea and Flood 2014, doi:10.1145/2660193.2660195).

Shapes: K environments, n of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.protocols import FloatArray

Ids = NDArray[np.int32] | slice
ALL = slice(None)
_GAMMA, _FIRST, _SECOND = (np.uint64(x) for x in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


class Streams:
    """K streams; `keys` and `counts` are all of their state."""

    def __init__(self, num_envs: int) -> None:
        self.keys = np.zeros(num_envs, np.uint64)
        self.counts = np.zeros(num_envs, np.uint64)

    def seed(self, seeds: Sequence[int]) -> None:
        """Starts stream i from seeds[i]."""
        self.keys[:] = [np.random.SeedSequence(int(seed)).generate_state(1, np.uint64)[0] for seed in seeds]
        self.counts.fill(0)

    def integers(self, size: int, ids: Ids = ALL) -> NDArray[np.uint64]:
        """The next `size` numbers of each of these streams, [n, size], uniform over 64 bits."""
        steps: NDArray[np.uint64] = np.arange(1, size + 1, dtype=np.uint64)
        place: NDArray[np.uint64] = self.counts[ids][:, None] + steps
        self.counts[ids] += np.uint64(size)
        place *= _GAMMA
        place += self.keys[ids][:, None]
        for shift, factor in ((30, _FIRST), (27, _SECOND)):
            place ^= place >> np.uint64(shift)
            place *= factor
        place ^= place >> np.uint64(31)
        return place

    def uniform(self, size: int, low: float = 0.0, high: float = 1.0, *, ids: Ids = ALL) -> NDArray[np.float64]:
        """Uniform numbers [n, size] in [low, high)."""
        share = (self.integers(size, ids) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return low + share * (high - low)

    def noise(self, size: int, ids: Ids = ALL) -> FloatArray:
        """Uniform numbers [n, size] in [-1, 1) with 24 bits, two for each step of a stream."""
        halves = self.integers((size + 1) // 2, ids).view(np.uint32)[:, :size]
        return (halves >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-23) - np.float32(1.0)
