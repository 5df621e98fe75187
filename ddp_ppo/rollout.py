"""The memory that a learner and its actors share: one anonymous block, cut into named NumPy arrays.

A block is an anonymous file (`memfd_create`, elsewhere an unlinked temporary file) handed to spawned children as a
descriptor: the kernel frees it with its last process, and a small /dev/shm does not matter. Pages that nobody writes
cost nothing, which is why sparse fields (the final observations) may be dense arrays. Torch-free.

Who writes: the learner the `published` arrays, and only while no rollout runs; actor i the columns [i*K, (i+1)*K) of
the rollout fields and its own entry of `progress`, and only between the learner's "sample" and its own "done".

Shapes: T rollout_length, B environments of the learner, D observation size, A action size, P parameters.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.reduction import DupFd
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ALIGNMENT = 64  # bytes: a cache line

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Field:
    """One array of a rollout, [T + extra_rows, B, *shape]."""

    name: str
    dtype: str
    shape: tuple[int, ...] = ()
    extra_rows: int = 0


def slot_name(name: str, slot: int) -> str:
    """The name of an array that exists once for each rollout slot; slot 0 has the plain name."""
    return f"{name}@{slot}" if slot else name


def rollout_shapes(fields: tuple[Field, ...], num_steps: int, num_envs: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Name -> (dtype, shape) of the arrays of one rollout, as `SharedBlock` takes them."""
    return {field.name: (field.dtype, (num_steps + field.extra_rows, num_envs, *field.shape)) for field in fields}


class SharedBlock:
    """Anonymous shared memory with named arrays in it; picklable only while a child process is being spawned."""

    def __init__(self, shapes: Mapping[str, tuple[str, tuple[int, ...]]], descriptor: int | None = None) -> None:
        self._shapes = dict(shapes)
        self._descriptor = _anonymous_file(block_bytes(shapes)) if descriptor is None else descriptor
        self._map = mmap.mmap(self._descriptor, block_bytes(shapes))
        self.arrays: Arrays = {}
        for name, (start, dtype, shape) in _places(shapes).items():
            count = int(np.prod(shape))
            self.arrays[name] = np.frombuffer(self._map, dtype, count, start).reshape(shape)

    def __reduce__(self) -> tuple[Any, ...]:
        return _attach, (self._shapes, DupFd(self._descriptor))

    @property
    def memory(self) -> NDArray[np.uint8]:
        """All of its bytes, the gaps between the arrays included."""
        return np.frombuffer(self._map, np.uint8)

    def close(self) -> None:
        """Gives the descriptor back; the memory itself goes with the last array that looks at it."""
        self.arrays = {}
        os.close(self._descriptor)


def block_bytes(shapes: Mapping[str, tuple[str, tuple[int, ...]]]) -> int:
    """Size of a block with these arrays, at least one page."""
    places = _places(shapes)
    return max([mmap.PAGESIZE, *(start + _num_bytes(dtype, shape) for start, dtype, shape in places.values())])


def _places(shapes: Mapping[str, tuple[str, tuple[int, ...]]]) -> dict[str, tuple[int, str, tuple[int, ...]]]:
    places, start = {}, 0
    for name, (dtype, shape) in shapes.items():
        places[name] = (start, dtype, shape)
        start += -(-_num_bytes(dtype, shape) // _ALIGNMENT) * _ALIGNMENT
    return places


def _num_bytes(dtype: str, shape: tuple[int, ...]) -> int:
    return int(np.prod(shape)) * np.dtype(dtype).itemsize


def _attach(shapes: Mapping[str, tuple[str, tuple[int, ...]]], descriptor: Any) -> SharedBlock:
    return SharedBlock(shapes, descriptor.detach())


def _anonymous_file(num_bytes: int) -> int:
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("ddp_ppo")
    else:
        descriptor, path = tempfile.mkstemp(prefix="ddp_ppo-")
        os.unlink(path)
    os.ftruncate(descriptor, num_bytes)
    return descriptor


class Rollout:
    """One round's data of one learner: arrays [T(+1), B, ...], filled by the actors and cleared by the learner."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self._is_filled = False

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.arrays[name]

    @property
    def buffer_size(self) -> int:
        """Samples that wait to be trained on: T * B after a rollout, 0 after `clear`."""
        return int(self.arrays["reward"].size) if self._is_filled else 0

    def fill(self) -> None:
        """Says that the actors have written a whole rollout."""
        self._is_filled = True

    def clear(self) -> None:
        """Says that the data has been used up."""
        self._is_filled = False
