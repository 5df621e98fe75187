"""Idle actors as gradient workers: while a learner trains, each of them computes a part of every mini-batch.

Learner and workers share the samples of an epoch in their order, one gradient vector for each worker, and a few
counters. The learner announces a mini-batch by raising the ticket; a worker answers by copying it. Both wait by
looking again and again, since a mini-batch is shorter than a wake-up by the kernel; a wait that gets long yields the
core. The order of the stores is kept by x86 processors and by no others, so only those get workers. Torch-free.

Who writes: the learner everything but `gradients` and `answers`, and samples only while no ticket is open; worker w
gradients[w], answers[w] and its own rows of the report, between a ticket and its answer.

Shapes: N samples of a round, n of a mini-batch, W workers, D observation size, A action size, P parameters.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.networks import NetworkSpec
from ddp_ppo.ppo_gradient import LossSettings, PPOGradient, Report, Samples
from ddp_ppo.protocols import FloatArray
from ddp_ppo.rollout import Arrays

MIN_ROWS = 128  # of a mini-batch for each process; below, waiting costs more than it saves
_CLOSED = -1  # the ticket that ends a worker's service
_TICKET, _START, _STOP, _COUNTERS = 0, 1, 2, 8
_LOOKS_BEFORE_YIELD = 2000  # about 50 us
_CHECK_SECONDS = 1.0

Shapes = dict[str, tuple[str, tuple[int, ...]]]


class Team(NamedTuple):
    """How a learner reaches its workers; the default is a learner without any."""

    arrays: Arrays = {}  # those of `shared_shapes`  # noqa: RUF012 - never written to
    num_workers: int = 0
    begin: Callable[[], None] = lambda: None  # makes the workers enter `GradientWorker.serve`
    end: Callable[[], None] = lambda: None  # waits until they have left it
    check: Callable[[], None] = lambda: None  # raises if one of them is gone


def num_gradient_workers(minibatch_size: int, num_actors: int, num_threads: int) -> int:
    """Workers that are worth having: W."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return 0
    return max(0, min(num_actors, num_threads - 1, minibatch_size // MIN_ROWS - 1))


def shared_shapes(network: NetworkSpec, num_samples: int, num_workers: int) -> Shapes:
    """Name -> (dtype, shape) of what learner and workers share."""
    is_gaussian = network.head == "gaussian"
    samples: Shapes = {
        "obs": ("float32", (num_samples, network.obs_size + 1)),
        "act": ("float32", (num_samples, network.action_size)) if is_gaussian else ("int64", (num_samples,)),
        **{name: ("float32", (num_samples,)) for name in Samples._fields[2:]},
    }
    return {
        **{f"update_{name}": shape for name, shape in samples.items()},
        **{f"update_{name}": ("float32", (num_samples,)) for name in Report._fields},
        "update_gradients": ("float32", (num_workers, network.num_parameters)),
        "update_counters": ("int64", (_COUNTERS,)),
        "update_answers": ("int64", (num_workers, _COUNTERS)),
    }


def _samples_of(arrays: Arrays) -> tuple[Samples, Report]:
    return (
        Samples(*(arrays[f"update_{name}"] for name in Samples._fields)),
        Report(*(arrays[f"update_{name}"] for name in Report._fields)),
    )


def _part(start: int, stop: int, index: int, count: int) -> tuple[int, int]:
    """Rows of part `index` of `count` parts of a mini-batch."""
    size = stop - start
    return start + size * index // count, start + size * (index + 1) // count


class GradientTeam:
    """The learner's side: computes its own part of each mini-batch and adds the workers' parts."""

    def __init__(
        self, network: NetworkSpec, settings: LossSettings, parameters: FloatArray, gradient: FloatArray, team: Team
    ) -> None:
        """Parameters [P] lie in the shared block where there are workers; gradient [P] is written by `compute`."""
        self._network = network
        self._team = team
        self._gradient = gradient
        self._ppo = PPOGradient(network, settings, parameters, gradient)
        self._num_gathered = 0
        self._arrays = team.arrays or {"update_counters": np.zeros(_COUNTERS, np.int64), "update_answers": np.zeros(0)}
        self._ticket = 0
        self._counters = memoryview(self._arrays["update_counters"].data)
        self._answers = [memoryview(answer) for answer in self._arrays["update_answers"]]

    @contextmanager
    def session(self) -> Iterator[None]:
        """Has the workers serve while it lasts: one round."""
        self._ticket = self._counters[_TICKET] = 0
        for answer in self._answers:
            answer[0] = 0
        self._team.begin()
        try:
            yield
        finally:
            self._counters[_TICKET] = _CLOSED
        self._team.end()

    def gather(self, samples: Samples, order: NDArray[np.int64]) -> tuple[Samples, Report]:
        """Puts the samples of an epoch into their order [N], once for all mini-batches."""
        if self._num_gathered != len(order):
            self._samples, self._report = self._memory(len(order))
            self._num_gathered = len(order)
        for source, target in zip(samples, self._samples, strict=True):
            np.take(source, order, axis=0, out=target)
        return self._samples, self._report

    def _memory(self, num_samples: int) -> tuple[Samples, Report]:
        if self._team.num_workers:
            return _samples_of(self._arrays)
        shapes = shared_shapes(self._network, num_samples, 0)
        return _samples_of({name: np.zeros(shape, dtype) for name, (dtype, shape) in shapes.items()})

    def compute(self, start: int, stop: int) -> None:
        """Writes the gradient of the mini-batch start .. stop-1 of the gathered samples."""
        count = self._team.num_workers + 1
        self._ticket += 1
        self._counters[_START], self._counters[_STOP] = start, stop
        self._counters[_TICKET] = self._ticket
        own_start, own_stop = _part(start, stop, 0, count)
        own, report = self._samples.rows(own_start, own_stop), self._report.rows(own_start, own_stop)
        self._ppo.compute(own, report, stop - start)
        for worker in range(count - 1):
            _wait_for(self._answers[worker], self._ticket, self._team.check)
            self._gradient += self._arrays["update_gradients"][worker]


class GradientWorker:
    """A worker's side, in an actor's process."""

    def __init__(self, arrays: Arrays, network: NetworkSpec, index: int, settings: LossSettings) -> None:
        self._index = index
        self._count = len(arrays["update_gradients"]) + 1
        self._samples, self._report = _samples_of(arrays)
        self._counters = memoryview(arrays["update_counters"].data)
        self._answer = memoryview(arrays["update_answers"][index])
        self._ppo = PPOGradient(network, settings, arrays["learner_parameters"], arrays["update_gradients"][index])

    def serve(self) -> None:
        """Computes this worker's part of every mini-batch until the learner closes the round."""
        ticket = self._answer[0] + 1  # not 1 where a lost worker is being replaced in the middle of a round
        while _wait_for(self._counters, ticket, lambda: None) != _CLOSED:
            start, stop = self._counters[_START], self._counters[_STOP]
            own_start, own_stop = _part(start, stop, self._index + 1, self._count)
            own, report = self._samples.rows(own_start, own_stop), self._report.rows(own_start, own_stop)
            self._ppo.compute(own, report, stop - start)
            self._answer[0] = ticket
            ticket += 1


def _wait_for(counter: memoryview, value: int, check: Callable[[], None]) -> int:
    """Waits until counter[0] is `value` or closed, and returns it; calls `check` once a second."""
    looks = 0
    deadline = 0.0
    while (seen := counter[0]) not in (value, _CLOSED):
        looks += 1
        if looks % _LOOKS_BEFORE_YIELD == 0:
            os.sched_yield()
            now = time.monotonic()
            deadline = deadline or now + _CHECK_SECONDS
            if now > deadline:
                check()
                deadline = now + _CHECK_SECONDS
    return int(seen)
