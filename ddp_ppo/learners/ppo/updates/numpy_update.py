"""PPO's gradient steps in NumPy: the hand-derived gradient of `numpy_gradient`, then Adam, alone or with a worker.

`torch_update.TorchUpdate` is the definition; parameters agree within 1e-6 after 50 mini-batches. The policy's own flat
vector and Adam state are trained through NumPy views of them.

Shapes: N samples of a round, P parameters.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ddp_ppo.learners.adam_state import AdamState
from ddp_ppo.learners.ppo.loss import Batch
from ddp_ppo.learners.ppo.loss_settings import LossSettings
from ddp_ppo.learners.ppo.updates.critic_worker import NO_TEAM, CriticTeam, Team, samples_of, shared_shapes
from ddp_ppo.learners.ppo.updates.numpy_epoch import Trained, TrunkTrainer, run_epoch
from ddp_ppo.learners.ppo.updates.numpy_gradient import Samples, SampleStats
from ddp_ppo.learners.ppo.updates.update import EpochStats
from ddp_ppo.maths.distributions import LOG_RATIO_MAX
from ddp_ppo.policies.torch_policy import ActorCritic

Result = TypeVar("Result")
_TRIAL_INTERVAL = 50  # rounds between two looks at the slower way


class NumpyUpdate:
    """Gradient steps for an MLP with a Gaussian or categorical head; every option of `LossSettings`."""

    def __init__(
        self,
        policy: ActorCritic,
        optimizer: AdamState,
        settings: LossSettings,
        average_gradient: Callable[[Tensor], None],
        team: Team = NO_TEAM,
    ) -> None:
        """With a worker, policy and optimizer state lie in the arrays that the team shares."""
        self._network, self._seen = policy.network, policy.seen
        self._settings = settings
        self._trained = Trained(
            policy.flat.data.numpy(), optimizer.exp_avg.numpy(), optimizer.exp_avg_sq.numpy(), optimizer.step.numpy()
        )
        self._crew = CriticTeam(team) if team.has_worker else None
        self._arrays = team.arrays
        self._both = TrunkTrainer(policy.network, settings, self._trained)
        self._actor = TrunkTrainer(policy.network, settings, self._trained, ("actor",))
        gradient = torch.from_numpy(self._both.gradient)
        self._average = lambda: average_gradient(gradient)
        self._choice = _WorkerChoice()
        self._team: CriticTeam | None = None  # in this round
        self._samples: Samples

    def run(self, work: Callable[[], Result]) -> Result:
        """Does the epochs of a round, with the worker where there is one and where that is quicker."""
        self._team = self._crew if self._choice.is_with_worker() else None
        start, first_step = time.perf_counter(), float(self._trained.step)
        result = work() if self._team is None else self._team.run(work)
        num_steps = float(self._trained.step) - first_step
        self._choice.took((time.perf_counter() - start) / max(1.0, num_steps), self._team is not None)
        return result

    def load(self, batch: Batch) -> None:
        """Takes the samples of a round; gives every observation its column of ones."""
        obs, *columns = (array.numpy() for array in batch._replace(obs=self._seen(batch.obs)))
        with_one = np.ones((len(obs), obs.shape[1] + 1), np.float32)
        with_one[:, :-1] = obs
        self._samples = Samples(with_one, *columns)

    def epoch(self, order: NDArray[np.int64], minibatch_size: int, learning_rate: float) -> EpochStats:
        """One pass over all samples in this order [N]; they are gathered once, and reported on once at the end."""
        samples, stats = self._gather(order)
        if self._team is not None:
            self._team.start_epoch(minibatch_size, learning_rate)
        norms = run_epoch(
            self._both if self._team is None else self._actor,
            samples,
            stats,
            minibatch_size=minibatch_size,
            learning_rate=learning_rate,
            first_step=float(self._trained.step) + 1.0,
            exchange=self._team.exchange if self._team is not None else lambda squared_norm: squared_norm,
            average=self._average,
        )
        if self._team is not None:
            self._team.finish_epoch()
        self._trained.step[...] += len(norms)
        return epoch_stats(samples.adv, stats, self._settings.clip_range, float(np.mean(norms)))

    def _gather(self, order: NDArray[np.int64]) -> tuple[Samples, SampleStats]:
        if self._team is None and len(self._arrays.get("update_adv", ())) != len(order):
            shapes = shared_shapes(self._network, len(order))
            self._arrays = {name: np.zeros(shape, dtype) for name, (dtype, shape) in shapes.items()}
        samples, stats = samples_of(self._arrays)
        for source, target in zip(self._samples, samples, strict=True):
            np.take(source, order, axis=0, out=target)
        return samples, stats


class _WorkerChoice:
    """Chooses between training alone and with the worker by what a gradient step took last with either.

    Both give the same bits. With a core for each process the worker halves the time; where other programs take the
    cores, two processes that wait for each other in every mini-batch are slower than one.
    """

    def __init__(self) -> None:
        self._seconds: dict[bool, float] = {}
        self._round = 0

    def is_with_worker(self) -> bool:
        self._round += 1
        if len(self._seconds) < 2:
            return True not in self._seconds
        quicker = self._seconds[True] < self._seconds[False]
        return quicker != (self._round % _TRIAL_INTERVAL == 0)

    def took(self, seconds: float, is_with_worker: bool) -> None:
        self._seconds[is_with_worker] = seconds


def epoch_stats(adv: NDArray[np.float32], stats: SampleStats, clip_range: float, grad_norm: float) -> EpochStats:
    """What an epoch reports, as means over its samples."""
    log_ratio = np.maximum(stats.log_ratio, -LOG_RATIO_MAX)
    ratio = np.exp(log_ratio)
    surrogate = np.maximum(-adv * ratio, -adv * ratio.clip(1.0 - clip_range, 1.0 + clip_range))
    return EpochStats(
        float(surrogate.mean()),
        float(stats.error.mean()),
        float(stats.entropy.mean()),
        float((ratio - 1.0 - log_ratio).mean()),
        float((np.abs(ratio - 1.0) > clip_range).mean()),
        grad_norm,
    )
