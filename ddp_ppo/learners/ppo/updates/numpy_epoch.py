"""One epoch of gradient steps in NumPy, for the whole parameter vector or for one trunk's part of it. Torch-free.

Actor and critic share nothing but the observations and the norm that the gradient is clipped by. So two processes can
train one part each, and all they exchange in a mini-batch is the squared norm of their part.

Shapes: N samples of a round, P parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.learners.ppo.loss_settings import ADAM_BETAS, LossSettings
from ddp_ppo.learners.ppo.updates.numpy_gradient import (
    Epoch,
    Memory,
    Minibatch,
    Samples,
    SampleStats,
    TrunkGradient,
)
from ddp_ppo.policies.network import TRUNKS, NetworkSpec, Trunk
from ddp_ppo.protocols import FloatArray
from ddp_ppo.sampling.finite import NonFiniteError


@dataclass(frozen=True)
class Trained:
    """What gradient steps change: parameters and Adam's moments, flat vectors [P], and the number of steps taken."""

    parameters: FloatArray
    exp_avg: FloatArray
    exp_avg_sq: FloatArray
    step: NDArray[np.float32]  # 0-d


class TrunkTrainer:
    """The gradient and Adam (Kingma and Ba 2015) of the given trunks, on copies of what is trained.

    An epoch begins with `load` and ends with `store`. The copies are this process's own: no other looks at their cache
    lines.
    """

    def __init__(
        self, network: NetworkSpec, settings: LossSettings, trained: Trained, trunks: tuple[Trunk, ...] = TRUNKS
    ) -> None:
        self._settings = settings
        start, stop = network.part(trunks[0]).start, network.part(trunks[-1]).stop
        shared = [array[start:stop] for array in vars(trained).values() if array.ndim]
        self._parameters, self._exp_avg, self._exp_avg_sq = own = [np.zeros_like(array) for array in shared]
        self._copies = list(zip(shared, own, strict=True))
        self.gradient, self._scratch = np.zeros_like(self._parameters), np.zeros_like(self._parameters)
        memory = Memory(network.hidden_sizes)
        self._trunks, self._trunk_gradients = [], []
        for trunk in trunks:
            place = slice(network.part(trunk).start - start, network.part(trunk).stop - start)
            parameters, gradient = self._parameters[place], self.gradient[place]
            self._trunk_gradients.append(gradient)
            self._trunks.append(
                TrunkGradient(network, settings, trunk, parameters=parameters, gradient=gradient, memory=memory)
            )
        self._epoch: Epoch | None = None

    def load(self) -> None:
        """Takes what is trained as it is now."""
        for shared, own in self._copies:
            own[:] = shared

    def store(self) -> None:
        """Gives the result of the steps back."""
        for shared, own in self._copies:
            shared[:] = own

    def minibatches(self, samples: Samples, stats: SampleStats, minibatch_size: int) -> Iterator[Minibatch]:
        """Cuts the samples of an epoch; the cuts are kept for the next one in the same memory."""
        if self._epoch is None or not self._epoch.is_of(samples, minibatch_size):
            self._epoch = Epoch(samples, stats, minibatch_size, self._settings.clip_range)
        return self._epoch.begin()

    def differentiate(self, minibatch: Minibatch) -> None:
        """Writes these trunks' gradient of the mini-batch to `gradient`."""
        for trunk in self._trunks:
            trunk.compute(minibatch)

    def squared_norm(self) -> float:
        """Of the gradient, added up trunk by trunk: the same bits, however the trunks are spread over processes."""
        return sum(float(gradient @ gradient) for gradient in self._trunk_gradients)

    def adam(self, norm: float, step: float, learning_rate: float) -> None:
        """One step, the gradient clipped by the norm of the whole gradient.

        The factors are gathered so that each vector is passed over as seldom as possible.
        """
        gradient, exp_avg, exp_avg_sq, scratch = self.gradient, self._exp_avg, self._exp_avg_sq, self._scratch
        limit = self._settings.max_grad_norm
        clip = 1.0 if limit is None else min(1.0, limit / (norm + 1e-6))
        beta1, beta2 = ADAM_BETAS
        correction1, correction2 = 1.0 - beta1**step, math.sqrt(1.0 - beta2**step)
        exp_avg *= beta1
        exp_avg += np.multiply(gradient, clip * (1.0 - beta1), out=scratch)
        exp_avg_sq *= beta2
        np.multiply(gradient, gradient, out=scratch)
        exp_avg_sq += np.multiply(scratch, clip * clip * (1.0 - beta2), out=scratch)
        np.sqrt(exp_avg_sq, out=scratch)
        scratch += self._settings.adam_eps * correction2
        np.divide(exp_avg, scratch, out=scratch)
        scratch *= learning_rate * correction2 / correction1
        self._parameters -= scratch


def run_epoch(
    trainer: TrunkTrainer,
    samples: Samples,
    stats: SampleStats,
    *,
    minibatch_size: int,
    learning_rate: float,
    first_step: float,
    exchange: Callable[[float], float],
    average: Callable[[], None] = lambda: None,
) -> list[float]:
    """A gradient step for every minibatch_size of the samples [N], in their order; the last one has the rest.

    Args:
        first_step: number of Adam's first step, from 1.
        exchange: turns this trainer's squared norm into that of the whole gradient.
        average: averages `trainer.gradient` over learners, in place.

    Returns:
        the norms before clipping.

    Raises:
        NonFiniteError: a norm is not finite; what is trained stays as it was before the epoch.
    """
    norms: list[float] = []
    trainer.load()
    for minibatch in trainer.minibatches(samples, stats, minibatch_size):
        trainer.differentiate(minibatch)
        average()
        norm = math.sqrt(exchange(trainer.squared_norm()))
        if not math.isfinite(norm):
            raise NonFiniteError(f"the norm of the gradient is {norm}; no step was taken with it")
        trainer.adam(norm, first_step + len(norms), learning_rate)
        norms.append(norm)
    trainer.store()
    return norms
