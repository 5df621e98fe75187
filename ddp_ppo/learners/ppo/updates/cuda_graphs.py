"""What the update does besides on a CUDA device: gradient steps as CUDA graphs, and page-locked shared memory.

A step of a small network is about a hundred kernels of microseconds, which takes longer to start from Python, one by
one, than to compute; a graph starts them together. A step that averages gradients over learners is not captured. For
graphs see "CUDA Graphs" in PyTorch's notes on CUDA semantics, whole-network capture.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from ddp_ppo.learners.ppo.updates.update import Step

NUM_WARM_UPS = 3  # first calls of a size, in which libraries set themselves up: that cannot be captured


class Stream(Protocol):
    """Where steps are done and captured."""

    def run(self, step: Step, index: Tensor) -> None:
        """Does the step."""

    def capture(self, step: Step, index: Tensor) -> Callable[[], object]:
        """What does the step with the values that its tensors, the index among them, then have; does nothing yet."""


class CapturedStep:
    """Does what a step does: calls it a few times for each number of samples, then replays what it captured of it."""

    def __init__(self, step: Step, stream: Stream) -> None:
        self._step = step
        self._stream = stream
        self._num_calls: Counter[int] = Counter()
        self._replays: dict[int, tuple[Tensor, Callable[[], object]]] = {}

    def __call__(self, index: Tensor) -> None:
        """A gradient step with the samples of these numbers [n]."""
        size = len(index)
        self._num_calls[size] += 1
        if self._num_calls[size] <= NUM_WARM_UPS:
            self._stream.run(self._step, index)
            return
        if size not in self._replays:
            own_index = torch.empty_like(index)
            self._replays[size] = own_index, self._stream.capture(self._step, own_index)
        own_index, replay = self._replays[size]
        own_index.copy_(index)
        replay()


class CudaStream:
    """A CUDA stream beside the current one, because the default stream cannot be captured."""

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def run(self, step: Step, index: Tensor) -> None:
        """Does the step behind what the current stream has to do, and before what it is given next."""
        current = torch.cuda.current_stream(self._stream.device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            step(index)
        current.wait_stream(self._stream)

    def capture(self, step: Step, index: Tensor) -> Callable[[], object]:
        """A replay of the step on the stream that is the current one then."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self._stream):
            step(index)
        return graph.replay


def captured_on(device: torch.device) -> Callable[[Step], Step]:
    """What makes captured steps of steps on this CUDA device."""
    stream = CudaStream(device)
    return lambda step: CapturedStep(step, stream)
