"""PPO's gradient step by torch autograd: the definition that every faster update must equal.

Shapes: N samples of a round, n samples of a mini-batch, D observation size, A action size, P parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim.adam import adam

from ddp_ppo.learners.adam_state import AdamState
from ddp_ppo.learners.ppo.loss import Batch, ppo_loss
from ddp_ppo.learners.ppo.loss_settings import ADAM_BETAS, LossSettings
from ddp_ppo.learners.ppo.updates.update import EpochStats, Result, Step
from ddp_ppo.policies.torch_policy import ActorCritic
from ddp_ppo.sampling.finite import NonFiniteError


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
        optimizer: AdamState,
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
