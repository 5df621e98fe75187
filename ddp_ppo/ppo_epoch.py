"""One epoch of gradient steps in NumPy, for the whole parameter vector or for one trunk's part of it. Torch-free.

Actor and critic share nothing but the observations and the norm that the gradient is clipped by. So two processes can
train one part each, and all they exchange in a mini-batch is the squared norm of their part.

Shapes: N samples of a round, P parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.finite import NonFiniteError
from ddp_ppo.networks import NetworkSpec
from ddp_ppo.ppo_gradient import BOTH_TRUNKS, LossSettings, PPOGradient, Report, Samples, Trunk
from ddp_ppo.protocols import FloatArray

ADAM_BETAS = (0.9, 0.999)


@dataclass(frozen=True)
class Trained:
    """What gradient steps change: parameters and Adam's moments, flat vectors [P], and the number of steps taken."""

    parameters: FloatArray
    exp_avg: FloatArray
    exp_avg_sq: FloatArray
    step: NDArray[np.float32]  # 0-d


class Part:
    """The gradient and Adam (Kingma and Ba 2015) of the given trunks."""

    def __init__(
        self, network: NetworkSpec, settings: LossSettings, trained: Trained, trunks: tuple[Trunk, ...] = BOTH_TRUNKS
    ) -> None:
        self._settings = settings
        own = slice(network.part(trunks[0]).start, network.part(trunks[-1]).stop)
        self._parameters, self._exp_avg = trained.parameters[own], trained.exp_avg[own]
        self._exp_avg_sq = trained.exp_avg_sq[own]
        gradient = np.zeros_like(trained.parameters)
        self.gradient = gradient[own]
        self._trunk_gradients = [gradient[network.part(trunk)] for trunk in trunks]
        self._scratch = np.empty_like(self.gradient)
        self._ppo = PPOGradient(network, settings, trained.parameters, gradient, trunks)

    def differentiate(self, samples: Samples, report: Report) -> None:
        """Writes this part's gradient of the mini-batch to `gradient`."""
        self._ppo.compute(samples, report)

    def squared_norm(self) -> float:
        """Of `gradient`, added up trunk by trunk: the same bits, however the trunks are spread over processes."""
        return sum(float(gradient @ gradient) for gradient in self._trunk_gradients)

    def adam(self, norm: float, step: float, learning_rate: float) -> None:
        """One step with `gradient`, clipped by the norm of the whole gradient.

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
    part: Part,
    samples: Samples,
    report: Report,
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
        exchange: turns this part's squared norm into that of the whole gradient.
        average: averages `part.gradient` over learners, in place.

    Returns:
        the norms before clipping.

    Raises:
        NonFiniteError: a norm is not finite; no step has been taken with it.
    """
    norms: list[float] = []
    for start in range(0, len(samples.adv), minibatch_size):
        stop = start + minibatch_size
        part.differentiate(samples.rows(start, stop), report.rows(start, stop))
        average()
        norm = math.sqrt(exchange(part.squared_norm()))
        if not math.isfinite(norm):
            raise NonFiniteError(f"the norm of the gradient is {norm}; no step was taken with it")
        part.adam(norm, first_step + len(norms), learning_rate)
        norms.append(norm)
    return norms
