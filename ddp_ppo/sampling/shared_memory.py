"""The memory that a learner and its actors share: one anonymous block, cut into named NumPy arrays.

A block is an anonymous file (`memfd_create`, elsewhere an unlinked temporary file) handed to spawned children as a
descriptor: the kernel frees it with its last process, and a small /dev/shm does not matter. Torch is loaded only to
keep the pages of a block in place for a GPU.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.reduction import DupFd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.protocols import Arrays

_ALIGNMENT = 64  # bytes: a cache line


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


@contextlib.contextmanager
def page_locked(memory: NDArray[np.uint8], device: str, on_failure: Callable[[str], None]) -> Iterator[None]:
    """Keeps these bytes of shared memory in place for a CUDA device, which then copies from them without the CPU.

    All their pages become resident. Where the driver refuses, `on_failure` is told and copies take longer; on any
    other device nothing happens.
    """
    if not device.startswith("cuda"):
        yield
        return
    import torch

    runtime: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    with torch.cuda.device(device):
        error = int(runtime.cudaHostRegister(memory.ctypes.data, memory.nbytes, 0))
    if error:
        with contextlib.suppress(RuntimeError):  # a failed call is reported once more, by the next kernel
            torch.ones(1, device=device)
        on_failure(f"shared memory stays pageable (cudaHostRegister: error {error}): copies to the GPU take longer")
    try:
        yield
    finally:
        if not error:
            runtime.cudaHostUnregister(memory.ctypes.data)
