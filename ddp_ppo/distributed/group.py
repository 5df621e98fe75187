"""What learners tell each other: broadcast, average, exchange, gather. The only module that knows torch.distributed.

A single learner is the value num_learners = 1 of the same class: every call then returns its argument. Every rank must
reach each call equally often; a rank that does not come makes the others fail after the time limit instead of waiting
for ever. Each says in torchrun's store which call it has come to, so that the message names the one that is missing.
"""

from __future__ import annotations

import datetime
import os
import pickle
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from ddp_ppo.config.settings import ConfigError
from ddp_ppo.distributed.topology import TrainingTopology
from ddp_ppo.processes.siblings import end_stopped, learners_here

_ATTEMPT, _FOLDER = "ddp_ppo/attempt", "ddp_ppo/folder"  # in torchrun's store
_POLL_SECONDS = 0.05
_LAUNCH_TIMEOUT = datetime.timedelta(seconds=30)


class CollectiveError(RuntimeError):
    """A collective failed or timed out: another learner is gone, stopped or late; the message says which."""


class LearnerGroup:
    """The group of all learners of a run, seen from one of them."""

    def __init__(self, topology: TrainingTopology, *, timeout_seconds: float) -> None:
        self.rank = topology.rank
        self.num_learners = topology.num_learners
        self._device = torch.device(topology.device)
        self._timeout_seconds = timeout_seconds
        self._num_calls = 0
        self._launch: Any = None  # torchrun's store
        self._store: Any = None  # the part of it that belongs to this attempt
        if self.num_learners > 1:
            if self._device.type == "cuda":
                torch.cuda.set_device(self._device)
            self._form_group(topology.backend, datetime.timedelta(seconds=timeout_seconds))

    def _form_group(self, backend: str, timeout: datetime.timedelta) -> None:
        """Meets the others at torchrun's store."""
        is_host = self.rank == 0 and not _has_agent_store(os.environ)
        try:
            self._launch = _store(os.environ, timeout, is_host=is_host)
            self._meet(timeout.total_seconds())
            dist.init_process_group(
                backend,
                store=self._store,
                rank=self.rank,
                world_size=self.num_learners,
                timeout=timeout,
            )
        except KeyError as error:
            raise ConfigError(f"{error.args[0]} is missing beside RANK and WORLD_SIZE; start with torchrun") from None
        except RuntimeError as error:
            raise self._failure("the learners did not come together", error) from error

    def _meet(self, seconds: float) -> None:
        """Waits for the others of this attempt under a name of its own: addresses of an earlier one are dead.

        torchrun ends all processes of an attempt before it begins the next, but its store stays, and its agents on
        several nodes count attempts differently. So rank 0 makes the name, and answers whoever has come to it.
        """
        token, deadline = uuid.uuid4().hex, time.monotonic() + seconds
        if self.rank == 0:
            self._launch.set(_ATTEMPT, token)
        self._num_calls = 1
        while True:
            attempt = str(self._launch.get(_ATTEMPT), "utf-8")  # an old one's until rank 0 has come
            self._store = dist.PrefixStore(f"ddp_ppo/{attempt}", self._launch)  # type: ignore[attr-defined]
            self._store.set(f"token/{self.rank}", token)
            self._store.set(f"calls/{self.rank}", "1")
            tokens = [f"token/{rank}" for rank in range(self.num_learners)]
            if self.rank == 0 and self._store.check(tokens):
                for key in tokens:
                    self._store.set(f"welcome/{self._read(key)}", "")
            if self._store.check([f"welcome/{token}"]):
                return
            if time.monotonic() > deadline:
                raise RuntimeError("no start")
            time.sleep(_POLL_SECONDS)

    def __enter__(self) -> LearnerGroup:
        return self

    def __exit__(self, error_type: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        # After an error the other ranks may never come: leave without waiting for them.
        if error_type is not None:
            self.leave(str(error).partition("\n")[0] or error_type.__name__)
        elif self._store is not None and dist.is_initialized():
            dist.destroy_process_group()

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        """Overwrites each tensor with rank 0's."""
        if self.num_learners > 1:
            for tensor in tensors:
                on_device = tensor.to(self._device)
                self._run(dist.broadcast, on_device, src=0)
                tensor.copy_(on_device)

    def average(self, tensor: Tensor) -> None:
        """Replaces the tensor by its mean over all learners, in place; the result has the same bits on every rank."""
        if self.num_learners > 1:
            self._run(dist.all_reduce, tensor)
            tensor /= self.num_learners

    def average_scalar(self, value: float) -> float:
        """Mean of one number over all learners."""
        return float(self.exchange(np.array([value])).mean())

    def is_any(self, value: bool) -> bool:
        """Whether a statement is true of any learner."""
        return bool(self.exchange(np.array([float(value)])).any())

    def exchange(self, row: NDArray[np.float64]) -> NDArray[np.float64]:
        """Every learner's row [n] as [num_learners, n], by one sum over rows that are zero but for one's own."""
        rows = np.zeros((self.num_learners, len(row)))
        rows[self.rank] = row
        if self.num_learners > 1:
            tensor = torch.from_numpy(rows).to(self._device)
            self._run(dist.all_reduce, tensor)
            rows = tensor.cpu().numpy()
        return rows

    def gather(self, value: Any) -> list[Any]:
        """Every learner's value on rank 0, in the order of ranks; an empty list elsewhere."""
        if self.num_learners == 1:
            return [value]
        gathered: list[Any] | None = [None] * self.num_learners if self.rank == 0 else None
        self._run(dist.gather_object, value, gathered, dst=0)
        return gathered or []

    def share(self, value: Any) -> Any:
        """Rank 0's value on every rank."""
        values = [value]
        if self.num_learners > 1:
            self._run(dist.broadcast_object_list, values, src=0)
        return values[0]

    def collect(self, name: str, value: Any, *, seconds: float) -> list[Any]:
        """As `gather`, but no collective: an empty list on rank 0 too where a rank has not called it within the time.

        Args:
            name: tells one call from another.
        """
        if self.num_learners == 1:
            return [value]
        keys = [f"{name}/{rank}" for rank in range(self.num_learners)]
        try:
            self._store.set(keys[self.rank], pickle.dumps(value))
            if self.rank:
                return []
            self._store.wait(keys, datetime.timedelta(seconds=seconds))
            return [pickle.loads(self._store.get(key)) for key in keys]
        except RuntimeError:
            return []

    def leave(self, why: str) -> None:
        """Tells the others why this learner will not come any more; those that wait for it fail at once (gloo)."""
        if self._store is None:
            return
        with suppress(RuntimeError):
            self._store.set(f"left/{self.rank}", why)
        if self._device.type == "cpu" and dist.is_initialized():
            dist.destroy_process_group()

    def _run(self, collective: Any, *args: Any, **kwargs: Any) -> None:
        self._arrive()
        try:
            collective(*args, **kwargs)
        except RuntimeError as error:
            raise self._failure(f"{collective.__name__} failed", error) from error

    def _arrive(self) -> None:
        """Says which call this rank has come to; the store does not answer, so that this takes 4 us."""
        self._num_calls += 1
        with suppress(RuntimeError):  # the collective itself will say that the others are gone
            self._store.set(f"calls/{self.rank}", str(self._num_calls))

    def _failure(self, what: str, error: RuntimeError) -> CollectiveError:
        """Names who is missing, and kills it where it is stopped: torchrun would wait for it for 30 s more."""
        stopped = end_stopped()
        words = [f"rank {rank} was stopped (SIGSTOP) and has been killed" for rank in stopped]
        if not words and self._store is not None:
            words = self._missing()
        limit = f"collective_timeout_seconds={self._timeout_seconds:g}"
        who = "; ".join(words) or "another learner is gone or late"
        return CollectiveError(f"rank {self.rank}: {what} ({limit}): {who}: {_first_line(error)}")

    def _missing(self) -> list[str]:
        """What is known of the ranks that keep this one waiting: who has left, who has died, or else who is late."""
        if not self._read(f"calls/{self.rank}"):
            return []  # the store is gone too
        others = [rank for rank in range(self.num_learners) if rank != self.rank]
        late = [rank for rank in others if int(self._read(f"calls/{rank}") or 0) < self._num_calls]
        suspects = late or others  # who has come to this call may have left in the middle of it
        left = {rank: why for rank in suspects if (why := self._read(f"left/{rank}"))}
        dead = _dead([rank for rank in suspects if rank not in left])
        gone = [f"rank {rank} has left: {why}" for rank, why in left.items()] + [
            f"rank {rank} is gone" for rank in dead
        ]
        return gone or [f"rank {rank} has not come" for rank in late]

    def _read(self, key: str) -> str:
        """A key of the store; empty where it is not there, or the store is gone."""
        with suppress(RuntimeError):
            if self._store.check([key]):
                return str(self._store.get(key), "utf-8")
        return ""


def _dead(ranks: Sequence[int]) -> list[int]:
    """Those of these ranks whose process has ended; none can be named where learners run on other nodes too."""
    is_one_node = os.environ.get("LOCAL_WORLD_SIZE") == os.environ.get("WORLD_SIZE")
    alive = learners_here() if is_one_node else {}
    return [rank for rank in ranks if rank not in alive] if alive else []


def remember_folder(environ: Mapping[str, str], folder: Path) -> None:
    """Leaves the run folder for later attempts of this torchrun launch (--max-restarts)."""
    if _has_agent_store(environ):
        _store(environ, _LAUNCH_TIMEOUT).set(_FOLDER, str(folder.absolute()))


def folder_of_launch(environ: Mapping[str, str]) -> Path | None:
    """What an earlier attempt of this torchrun launch has left; None in the first one."""
    if _has_agent_store(environ):
        store = _store(environ, _LAUNCH_TIMEOUT)
        if store.check([_FOLDER]):
            return Path(str(store.get(_FOLDER), "utf-8"))
    return None


def _has_agent_store(environ: Mapping[str, str]) -> bool:
    """Whether torchrun's agent holds the store, which then outlives the learners."""
    return environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def _store(environ: Mapping[str, str], timeout: datetime.timedelta, *, is_host: bool = False) -> Any:
    address, port = environ["MASTER_ADDR"], int(environ["MASTER_PORT"])
    return dist.TCPStore(  # type: ignore[attr-defined]
        address, port, is_master=is_host, timeout=timeout, wait_for_workers=False
    )


def average_metrics(per_learner: Sequence[dict[str, float]], weights: Sequence[float]) -> dict[str, float]:
    """Means over all learners of metrics with the same names, weighted by their samples.

    A learner's NaN (nothing to report) does not count; NaN where no learner has anything to report.

    Raises:
        ValueError: no learners, or a different number of weights.
    """
    if not per_learner or len(per_learner) != len(weights):
        raise ValueError(f"{len(per_learner)} learners need as many weights, got {len(weights)}")
    averages = {}
    for name in per_learner[0]:
        pairs = [(m[name], w) for m, w in zip(per_learner, weights, strict=True) if not np.isnan(m[name]) and w > 0]
        total = sum(weight for _, weight in pairs)
        averages[name] = sum(value * weight for value, weight in pairs) / total if total else float("nan")
    return averages


def _first_line(error: RuntimeError) -> str:
    return str(error).splitlines()[0].split(" This is typically")[0]
