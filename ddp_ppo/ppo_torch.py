"""The PPO loss in torch and the gradient step by autograd: the definition that every faster update must equal.

Shapes: N samples of a round, n samples of a mini-batch, D observation size, A action size, P parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim.adam import adam

from ddp_ppo.distributions import LOG_RATIO_MAX
from ddp_ppo.finite import NonFiniteError
from ddp_ppo.policy import ActorCritic
from ddp_ppo.ppo_epoch import ADAM_BETAS
from ddp_ppo.ppo_gradient import LossSettings

Result = TypeVar("Result")
Step = Callable[[Tensor], None]  # a gradient step with the samples of these numbers [n]


class Batch(NamedTuple):
    """The samples of one round on the learner's device; obs is normalised."""

    obs: Tensor  # [N, D] float32
    act: Tensor  # [N, A] float32 or [N] int64
    logp: Tensor  # [N] of the policy that sampled
    adv: Tensor  # [N] standardised
    ret: Tensor  # [N] value targets
    value: Tensor  # [N] values when sampled


class EpochStats(NamedTuple):
    """Means over the samples of one epoch; grad_norm is the mean over its mini-batches, before clipping."""

    policy_loss: float
    value_loss: float
    entropy: float
    approx_kl: float
    clip_fraction: float
    grad_norm: float


@dataclass
class OptimizerState:
    """Adam's moments as flat vectors [P] beside the parameters, and its number of steps, a tensor with one element."""

    exp_avg: Tensor
    exp_avg_sq: Tensor
    step: Tensor


class Update(Protocol):
    """Gradient steps over the samples of one round."""

    def load(self, batch: Batch) -> None:
        """Takes the samples of a round."""

    def run(self, work: Callable[[], Result]) -> Result:
        """Does the epochs of a round: calls `work`, again from its start if it has to."""

    def epoch(self, order: NDArray[np.int64], minibatch_size: int, learning_rate: float) -> EpochStats:
        """One pass over all samples in this order [N], a gradient step every minibatch_size samples."""


class SampleLosses(NamedTuple):
    """Terms of the PPO loss of each sample [n], unweighted, and the ratio that they come from."""

    policy_loss: Tensor
    value_loss: Tensor
    entropy: Tensor  # [] for a Gaussian, whose entropy does not depend on the observation
    ratio: Tensor
    log_ratio: Tensor


class Losses(NamedTuple):
    """Terms of the PPO loss of one mini-batch: the total, and what is reported of it, all scalars."""

    total: Tensor
    policy_loss: Tensor
    value_loss: Tensor
    entropy: Tensor
    approx_kl: Tensor
    clip_fraction: Tensor


def ppo_loss(policy: ActorCritic, batch: Batch, settings: LossSettings) -> Losses:
    """Means over a mini-batch [n] of the clipped surrogate, the squared value error and the entropy bonus."""
    surrogate, error, entropy, ratio, log_ratio = sample_losses(policy, batch, settings)
    policy_loss, value_loss = surrogate.mean(), error.mean()
    total = policy_loss + settings.value_coef * value_loss - settings.entropy_coef * entropy.mean()
    with torch.no_grad():
        approx_kl = (ratio - 1.0 - log_ratio).mean()  # Schulman's k3 estimator
        clip_fraction = ((ratio - 1.0).abs() > settings.clip_range).float().mean()
    return Losses(total, policy_loss.detach(), value_loss.detach(), entropy.detach().mean(), approx_kl, clip_fraction)


def sample_losses(policy: ActorCritic, batch: Batch, settings: LossSettings) -> SampleLosses:
    """The clipped surrogate, the (optionally clipped) squared value error of each sample [n], the entropy [n] or []."""
    logp, entropy, value = policy.evaluate(batch.obs, batch.act)
    log_ratio = (logp - batch.logp).clamp(-LOG_RATIO_MAX, LOG_RATIO_MAX)
    ratio = log_ratio.exp()
    clipped_ratio = ratio.clamp(1.0 - settings.clip_range, 1.0 + settings.clip_range)
    surrogate = torch.maximum(-batch.adv * ratio, -batch.adv * clipped_ratio)
    error = value_error(value, batch.value, batch.ret, settings.value_clip_range)
    return SampleLosses(surrogate, error, entropy, ratio, log_ratio)


def value_error(value: Tensor, old_value: Tensor, ret: Tensor, clip_range: float | None) -> Tensor:
    """Squared error [n] of the critic, with a clip the larger one of it and of the value held near its old one."""
    error = (value - ret).square()
    if clip_range is None:
        return error
    held = old_value + (value - old_value).clamp(-clip_range, clip_range)
    return torch.maximum(error, (held - ret).square())


def step_by_step(step: Step) -> Step:
    """A step as it is."""
    return step


class TorchUpdate:
    """Gradient steps by torch autograd and fused Adam on the flat vector.

    A step looks at no value, and all that it reads and writes stays where it is: so it can be recorded and replayed.
    """

    def __init__(
        self,
        policy: ActorCritic,
        optimizer: OptimizerState,
        settings: LossSettings,
        average_gradient: Callable[[Tensor], None],
        accelerate: Callable[[Step], Step] = step_by_step,
    ) -> None:
        """Trains these tensors in place; `accelerate` makes a faster step of one, that does the same."""
        device = policy.flat.device
        self._policy = policy
        self._optimizer = optimizer
        self._settings = settings
        self._average_gradient = average_gradient
        self._accelerate = accelerate
        # Fused Adam wants the rate in float32 on a GPU; on a CPU it takes the setting unrounded.
        rate_type = torch.float64 if device.type == "cpu" else torch.float32
        self._learning_rate = torch.zeros((), dtype=rate_type, device=device)
        self._sums = torch.zeros(len(EpochStats._fields), device=device)
        self._batch = Batch(*(torch.empty(0) for _ in Batch._fields))
        self._minibatch: Step = self._step

    def load(self, batch: Batch) -> None:
        """Takes a copy of the samples of a round, to the same place as long as their number stays the same."""
        if len(self._batch.adv) != len(batch.adv):
            self._batch = Batch(*(torch.empty_like(array) for array in batch))
            self._minibatch = self._accelerate(self._step)
        for own, array in zip(self._batch, batch, strict=True):
            own.copy_(array)

    def run(self, work: Callable[[], Result]) -> Result:
        """Does the epochs of a round."""
        return work()

    def epoch(self, order: NDArray[np.int64], minibatch_size: int, learning_rate: float) -> EpochStats:
        """One pass over all samples in this order [N]; nothing waits for the device before the end of it."""
        self._learning_rate.fill_(learning_rate)
        self._sums.zero_()
        device_order = torch.from_numpy(order).to(self._policy.flat.device, non_blocking=True)
        indices = torch.split(device_order, minibatch_size)
        for index in indices:
            self._minibatch(index)
        self._sums[-1] /= len(indices)
        stats = EpochStats(*self._sums.tolist())
        for name, value in stats._asdict().items():
            if not math.isfinite(value):
                raise NonFiniteError(f"the {name} of an epoch is {value}; no step was taken with it")
        return stats

    def _step(self, index: Tensor) -> None:
        losses = ppo_loss(self._policy, Batch(*(array[index] for array in self._batch)), self._settings)
        (gradient,) = torch.autograd.grad(losses.total, self._policy.flat)
        self._average_gradient(gradient)
        grad_norm = torch.linalg.vector_norm(gradient)
        if self._settings.max_grad_norm is not None:
            gradient.mul_((self._settings.max_grad_norm / (grad_norm + 1e-6)).clamp(max=1.0))
        # Without waiting for the device: a gradient that is not finite moves nothing, and the epoch's end reports it.
        torch.where(grad_norm.isfinite(), gradient, torch.zeros_like(gradient), out=gradient)
        self._adam(gradient)
        self._sums[:-1] += torch.stack(losses[1:]) * (len(index) / len(self._batch.adv))
        self._sums[-1] += grad_norm

    def _adam(self, gradient: Tensor) -> None:
        adam(
            [self._policy.flat.data],
            [gradient],
            [self._optimizer.exp_avg],
            [self._optimizer.exp_avg_sq],
            [],
            [self._optimizer.step],
            fused=True,
            amsgrad=False,
            beta1=ADAM_BETAS[0],
            beta2=ADAM_BETAS[1],
            lr=self._learning_rate,
            weight_decay=0.0,
            eps=self._settings.adam_eps,
            maximize=False,
        )
