"""One tree of random streams for a whole run: (seed, purpose, rank, index, round), independent and repeatable.

A stream is named, never stored: what a round draws depends on its name alone, so a resumed or repeated round draws the
same numbers without any generator state in a checkpoint. Torch-free.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

import numpy as np


class Purpose(IntEnum):
    """What a stream is for; the numbers are part of the meaning of a seed and never change."""

    INIT = 0
    ENVIRONMENT = 1
    ACTION_NOISE = 2
    SHUFFLE = 3
    EVALUATION = 4
    GLOBAL = 5
    CONSTRUCTION = 6


def stream(seed: int, purpose: Purpose, *key: int) -> np.random.Generator:
    """The generator with this name, at its beginning."""
    return np.random.Generator(np.random.PCG64(_sequence(seed, purpose, key)))


def integer_seed(seed: int, purpose: Purpose, *key: int) -> int:
    """A 31-bit seed with this name, for whatever wants an integer (Gymnasium's reset, numpy.random.seed)."""
    return int(_sequence(seed, purpose, key).generate_state(1)[0] >> 1)


def seed_global_generators(seed: int) -> None:
    """For environments that draw from the global generators of `random`, NumPy and torch: none of them is a stream."""
    random.seed(seed)
    np.random.seed(seed)
    if (torch := _loaded_torch()) is not None:
        torch.manual_seed(seed)


@contextmanager
def kept_global_generators() -> Iterator[None]:
    """Puts the global generators of `random`, NumPy and, if it is loaded, torch back to where they stand now."""
    streams, torch = (random.getstate(), np.random.get_state()), _loaded_torch()
    of_torch = None if torch is None else torch.get_rng_state()
    of_gpus = torch.cuda.get_rng_state_all() if torch is not None and torch.cuda.is_initialized() else []
    try:
        yield
    finally:
        random.setstate(streams[0])
        np.random.set_state(streams[1])
        if torch is not None:
            torch.set_rng_state(of_torch)
            torch.cuda.set_rng_state_all(of_gpus)


def _loaded_torch() -> Any:
    """The module where something has loaded it; this one never does."""
    return sys.modules.get("torch")


def _sequence(seed: int, purpose: Purpose, key: tuple[int, ...]) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=(int(purpose), *key))
