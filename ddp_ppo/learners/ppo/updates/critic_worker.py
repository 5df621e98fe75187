"""The critic's part of the update in another process: an idle actor trains it while the learner trains the actor's.

Each process keeps its part of the parameters, of the gradient and of Adam's moments in its own cache; a mini-batch
costs one exchange of two numbers. Both wait for it by looking again and again, since it comes sooner than a wake-up by
the kernel would; a wait that gets long yields the core. The order of the stores is kept by x86 processors and by no
others, so only those have a worker. Torch-free.

Who writes: the learner the samples, `update_control` and `update_rate` between two epochs, and the actor's part; the
worker the critic's part, `update_error` and its own entries of `update_norms` and `update_seen`.

Shapes: N samples of a round, D observation size, A action size, P parameters.
"""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from ddp_ppo.learners.ppo.loss_settings import LossSettings
from ddp_ppo.learners.ppo.updates.numpy_epoch import Trained, TrunkTrainer, run_epoch
from ddp_ppo.learners.ppo.updates.numpy_gradient import Samples, SampleStats
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.protocols import Arrays, Shapes
from ddp_ppo.sampling.finite import NonFiniteError

Result = TypeVar("Result")

_LEARNER, _WORKER = 0, 1
_EPOCH, _MINIBATCH_SIZE, _FIRST_STEP = 0, 1, 2  # of update_control
_CLOSED = -1  # the epoch that ends a worker's service
_LOOKS_BEFORE_YIELD = 2000  # about 100 us
_CHECK_SECONDS = 1.0
_LINE = 8  # 64 bytes: what one process writes and the other looks at lies in cache lines of their own


class WorkerLostError(Exception):
    """The worker is gone; its part of the round is lost with it."""


class Team(NamedTuple):
    """How a learner reaches its worker; the default is a learner that trains alone."""

    arrays: Arrays = {}  # of `shared_shapes` and `trained_shapes`  # noqa: RUF012 - never written to
    has_worker: bool = False
    begin: Callable[[], None] = lambda: None  # makes the worker enter `CriticWorker.serve`
    end: Callable[[], None] = lambda: None  # waits until it has left
    is_lost: Callable[[float], bool] = lambda seconds: False  # after waiting so long; raises where it failed
    replace: Callable[[], None] = lambda: None  # starts a lost worker anew and makes it enter `serve`


NO_TEAM = Team()


def can_have_worker(num_actors: int, num_threads: int) -> bool:
    """Whether the critic's part goes to another process."""
    return platform.machine() in ("x86_64", "AMD64") and num_actors >= 1 and num_threads >= 2


def trained_shapes(network: NetworkSpec) -> Shapes:
    """Name -> (dtype, shape) of what the update changes."""
    size = network.num_parameters
    return {f"trained_{name}": ("float32", (size,)) for name in ("parameters", "exp_avg", "exp_avg_sq")} | {
        "trained_step": ("float32", ())
    }


def shared_shapes(network: NetworkSpec, num_samples: int) -> Shapes:
    """Name -> (dtype, shape) of what learner and worker share besides."""
    head = network.distribution
    samples: Shapes = {
        "obs": ("float32", (num_samples, network.obs_size + 1)),
        "act": (head.act_dtype, (num_samples, *head.act_shape)),
        **{name: ("float32", (num_samples,)) for name in (*Samples._fields[2:], *SampleStats._fields)},
    }
    return {
        **{f"update_{name}": shape for name, shape in samples.items()},
        "update_norms": ("float64", (2, 2, _LINE)),  # process, parity of the mini-batch
        "update_seen": ("int64", (2, _LINE)),  # mini-batches (learner, worker) and epochs (worker) of the round
        "update_control": ("int64", (_LINE,)),
        "update_rate": ("float64", (_LINE,)),
    }


def trained_of(arrays: Arrays) -> Trained:
    """The arrays of `trained_shapes`."""
    return Trained(*(arrays[f"trained_{name}"] for name in ("parameters", "exp_avg", "exp_avg_sq", "step")))


def samples_of(arrays: Arrays) -> tuple[Samples, SampleStats]:
    """The samples of an epoch and what is reported of them."""
    return (
        Samples(*(arrays[f"update_{name}"] for name in Samples._fields)),
        SampleStats(*(arrays[f"update_{name}"] for name in SampleStats._fields)),
    )


class _Exchange:
    """Adds the two squared norms of a mini-batch, seen from one of the processes.

    Neither can be two mini-batches ahead of the other, so two places for the norms are enough.
    """

    def __init__(self, arrays: Arrays, own: int, check: Callable[[float], None]) -> None:
        norms = arrays["update_norms"]
        other = 1 - own
        self._own = [norms[own, 0].data, norms[own, 1].data]
        self._other = [norms[other, 0].data, norms[other, 1].data]
        self._seen: Any = arrays["update_seen"][own].data
        self._other_seen: Any = arrays["update_seen"][other].data
        self._check = check

    def __call__(self, squared_norm: float) -> float:
        number = self._seen[0] + 1
        self._own[number % 2][0] = squared_norm
        self._seen[0] = number
        wait_until(lambda: self._other_seen[0] >= number, self._check)
        return float(squared_norm + self._other[number % 2][0])


class CriticTeam:
    """The learner's side of one update in two processes."""

    def __init__(self, team: Team) -> None:
        self._team = team
        arrays = team.arrays
        self._trained = trained_of(arrays)
        self._control: Any = arrays["update_control"].data
        self._rate: Any = arrays["update_rate"].data
        self._seen = arrays["update_seen"]
        self._epochs_done: Any = arrays["update_seen"][_WORKER].data
        self.exchange = _Exchange(arrays, _LEARNER, self._check)

    def run(self, work: Callable[[], Result]) -> Result:
        """Does the epochs of a round with the worker; begins again from the start where it is lost on the way."""
        with _own_core(_LEARNER):
            return self._run(work)

    def _run(self, work: Callable[[], Result]) -> Result:
        state = [array.copy() for array in vars(self._trained).values()]
        self._reset()
        self._team.begin()
        while True:
            try:
                result = work()
                self._control[_EPOCH] = _CLOSED
                self._team.end()
                return result
            except WorkerLostError:
                self._reset()
                for array, saved in zip(vars(self._trained).values(), state, strict=True):
                    array[...] = saved
                self._team.replace()
            except BaseException:
                self._control[_EPOCH] = _CLOSED
                raise

    def start_epoch(self, minibatch_size: int, learning_rate: float) -> None:
        """Sets the worker to the gathered samples."""
        self._control[_MINIBATCH_SIZE] = minibatch_size
        self._control[_FIRST_STEP] = int(self._trained.step) + 1
        self._rate[0] = learning_rate
        self._control[_EPOCH] += 1

    def finish_epoch(self) -> None:
        """Waits for the worker's last step."""
        wait_until(lambda: self._epochs_done[1] == self._control[_EPOCH], self._check)

    def _reset(self) -> None:
        self._control[_EPOCH] = 0
        self._seen[:] = 0

    def _check(self, seconds: float) -> None:
        if self._team.is_lost(seconds):
            raise WorkerLostError


class CriticWorker:
    """The worker's side, in an actor's process."""

    def __init__(self, arrays: Arrays, network: NetworkSpec, settings: LossSettings) -> None:
        self._trainer = TrunkTrainer(network, settings, trained_of(arrays), ("critic",))
        self._samples, self._stats = samples_of(arrays)
        self._control: Any = arrays["update_control"].data
        self._rate: Any = arrays["update_rate"].data
        self._seen: Any = arrays["update_seen"][_WORKER].data
        self._exchange = _Exchange(arrays, _WORKER, self._leave_if_closed)

    def serve(self) -> None:
        """Trains the critic's part of every epoch until the learner closes the round."""
        with _own_core(_WORKER):
            self._serve()

    def _serve(self) -> None:
        while True:
            wait_until(lambda: self._control[_EPOCH] not in (0, self._seen[1]), lambda seconds: None)
            epoch = self._control[_EPOCH]
            if epoch == _CLOSED:
                return
            try:
                run_epoch(
                    self._trainer,
                    self._samples,
                    self._stats,
                    minibatch_size=self._control[_MINIBATCH_SIZE],
                    learning_rate=self._rate[0],
                    first_step=float(self._control[_FIRST_STEP]),
                    exchange=self._exchange,
                )
            except (NonFiniteError, WorkerLostError):
                return  # the learner finds the same norm and reports it, or has given the round up
            self._seen[1] = epoch

    def _leave_if_closed(self, seconds: float) -> None:
        if self._control[_EPOCH] == _CLOSED:
            raise WorkerLostError


@contextmanager
def _own_core(which: int) -> Iterator[None]:
    """Keeps the two processes on cores of their own while it lasts (Linux).

    Left to itself the kernel often wakes both on one core and moves them apart some 100 ms later: a round is shorter.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    number = 2 * int(os.environ.get("LOCAL_RANK", "0")) + which
    os.sched_setaffinity(0, {sorted(allowed)[number % len(allowed)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def wait_until(is_there: Callable[[], bool], check: Callable[[float], None]) -> None:
    """Looks until something is there; `check` is told once a second how long it has taken."""
    looks, start, next_check = 0, 0.0, math.inf
    while not is_there():
        looks += 1
        if looks % _LOOKS_BEFORE_YIELD == 0:
            os.sched_yield()
            now = time.monotonic()
            start = start or now
            next_check = min(next_check, start + _CHECK_SECONDS)
            if now >= next_check:
                check(now - start)
                next_check = now + _CHECK_SECONDS
