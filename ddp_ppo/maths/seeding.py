"""One tree of random streams for a whole run: (seed, purpose, rank, index, round), independent and repeatable.

A stream is named, never stored: what a round draws depends on its name alone, so a resumed or repeated round draws the
same numbers without any generator state in a checkpoint. Torch-free.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """What a stream is for; the numbers are part of the meaning of a seed and never change."""

    INIT = 0
    ENVIRONMENT = 1
    ACTION_NOISE = 2
    SHUFFLE = 3
    EVALUATION = 4
    GLOBAL = 5


def stream(seed: int, purpose: Purpose, *key: int) -> np.random.Generator:
    """The generator with this name, at its beginning."""
    return np.random.Generator(np.random.PCG64(_sequence(seed, purpose, key)))


def integer_seed(seed: int, purpose: Purpose, *key: int) -> int:
    """A 31-bit seed with this name, for whatever wants an integer (Gymnasium's reset, numpy.random.seed)."""
    return int(_sequence(seed, purpose, key).generate_state(1)[0] >> 1)


def seed_global_generators(seed: int) -> None:
    """For environments that draw from the global generators of `random` and NumPy, which are none of these streams."""
    random.seed(seed)
    np.random.seed(seed)


@contextmanager
def kept_global_generators() -> Iterator[None]:
    """Puts the global generators of `random` and NumPy back, in the end, to where they stand now."""
    streams = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(streams[0])
        np.random.set_state(streams[1])


def _sequence(seed: int, purpose: Purpose, key: tuple[int, ...]) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=(int(purpose), *key))
