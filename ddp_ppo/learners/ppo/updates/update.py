"""What every way to take PPO's gradient steps offers, and what it reports of an epoch.

Shapes: N samples of a round.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ddp_ppo.learners.ppo.loss import Batch

Result = TypeVar("Result")
Step = Callable[[Tensor], None]  # a gradient step with the samples of these numbers [n]


class EpochStats(NamedTuple):
    """Means over the samples of one epoch; grad_norm is the mean over its mini-batches, before clipping."""

    policy_loss: float
    value_loss: float
    entropy: float
    approx_kl: float
    clip_fraction: float
    grad_norm: float


class Update(Protocol):
    """Gradient steps over the samples of one round."""

    def load(self, batch: Batch) -> None:
        """Takes the samples of a round."""

    def run(self, work: Callable[[], Result]) -> Result:
        """Does the epochs of a round: calls `work`, again from its start if it has to."""

    def epoch(self, order: NDArray[np.int64], minibatch_size: int, learning_rate: float) -> EpochStats:
        """One pass over all samples in this order [N], a gradient step every minibatch_size samples."""
