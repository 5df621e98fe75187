"""The gradient of the PPO loss for MLP policies, derived by hand and written in NumPy with preallocated memory.

`loss.ppo_loss` under autograd is the definition; this computes the same numbers more than ten times faster for
mini-batches of 64, where torch spends its time on calls, not on arithmetic. Torch-free, so that an idle actor can
compute the critic's part.

Shapes: N samples of an epoch, n of a mini-batch, D observation size, H hidden units, A action size. The input of a
layer carries a last column of ones, which multiplies the bias; activations run over that column too, because whole
arrays are quicker than slices of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.actions.action import HeadGradient
from ddp_ppo.learners.ppo.loss_settings import LossSettings
from ddp_ppo.maths.distributions import LOG_RATIO_MAX
from ddp_ppo.observations.layout import columns_of, joined
from ddp_ppo.policies.network import NetworkSpec, Trunk
from ddp_ppo.policies.numpy_mlp import NUMPY_ACTIVATIONS
from ddp_ppo.protocols import FloatArray

_BELOW_MAX = np.nextafter(np.float32(LOG_RATIO_MAX), np.float32(0.0))


class Samples(NamedTuple):
    """Samples in the order in which they are used."""

    obs: FloatArray  # [N, D + 1] normalised, the last column is 1
    act: NDArray[Any]  # [N, A] float32 or [N] int64
    logp: FloatArray  # [N] of the policy that sampled
    adv: FloatArray  # [N]
    ret: FloatArray  # [N]
    value: FloatArray  # [N] when sampled


class SampleStats(NamedTuple):
    """What is reported of each sample, written while its gradient is computed."""

    log_ratio: FloatArray  # [N] log of new over old probability, at most LOG_RATIO_MAX
    error: FloatArray  # [N] squared error of the value, the clipped one where a clip is set
    entropy: FloatArray  # [N]


class Minibatch(NamedTuple):
    """The rows of one mini-batch: views of samples, stats and what an epoch knows of each sample beforehand."""

    obs: FloatArray
    act: NDArray[Any]
    logp: FloatArray
    ret: FloatArray
    value: FloatArray
    log_ratio: FloatArray
    error: FloatArray
    entropy: FloatArray
    weight: FloatArray  # [n] -adv / n
    lowest: FloatArray  # [n] the log-ratios between which the surrogate moves with the policy
    highest: FloatArray  # [n]


class Epoch:
    """The samples of an epoch cut into mini-batches of one size, the last one with the rest; views made once."""

    def __init__(self, samples: Samples, stats: SampleStats, minibatch_size: int, clip_range: float) -> None:
        self._adv, self._minibatch_size, self._clip_range = samples.adv, minibatch_size, clip_range
        num_samples = len(samples.adv)
        starts = range(0, num_samples, minibatch_size)
        sizes = [min(minibatch_size, num_samples - start) for start in starts]
        self._factor = np.repeat([np.float32(-1.0 / size) for size in sizes], sizes)
        self._ahead = [np.empty(num_samples, np.float32) for _ in range(3)]
        columns = [array for name, array in samples._asdict().items() if name != "adv"] + [*stats, *self._ahead]
        self.minibatches = [
            Minibatch(*(array[start : start + size] for array in columns))
            for start, size in zip(starts, sizes, strict=True)
        ]

    def is_of(self, samples: Samples, minibatch_size: int) -> bool:
        """Whether these samples lie in the memory that was cut, to be cut alike."""
        return samples.adv is self._adv and minibatch_size == self._minibatch_size

    def begin(self) -> Iterator[Minibatch]:
        """Reads the advantages, which are new in each epoch; the surrogate is flat outside of these bounds.

        That is where the ratio has moved further than the clip allows and the advantage would move it on, and where
        its logarithm is not inside +-LOG_RATIO_MAX.
        """
        weight, lowest, highest = self._ahead
        np.multiply(self._adv, self._factor, out=weight)
        low = math.log1p(-self._clip_range) if self._clip_range < 1.0 else -np.inf
        lowest[:] = np.where(self._adv < 0.0, max(low, -_BELOW_MAX), -_BELOW_MAX)
        highest[:] = np.where(self._adv > 0.0, min(math.log1p(self._clip_range), _BELOW_MAX), _BELOW_MAX)
        return iter(self.minibatches)


def _tanh_backward(hidden: FloatArray, gradient: FloatArray) -> None:
    np.multiply(hidden, hidden, out=hidden)
    np.subtract(1.0, hidden, out=hidden)
    np.multiply(gradient, hidden, out=gradient)


def _relu_backward(hidden: FloatArray, gradient: FloatArray) -> None:
    np.multiply(gradient, hidden > 0.0, out=gradient)


def _elu_backward(hidden: FloatArray, gradient: FloatArray) -> None:
    np.minimum(hidden, 0.0, out=hidden)
    np.add(hidden, 1.0, out=hidden)
    np.multiply(gradient, hidden, out=gradient)


# Each multiplies the gradient in place and uses the hidden units up.
_BACKWARD = {"tanh": _tanh_backward, "relu": _relu_backward, "elu": _elu_backward}


class _Hidden:
    """Memory of one hidden layer for n samples, arrays [n, H + 1]."""

    def __init__(self, num_samples: int, width: int) -> None:
        self.units = np.empty((num_samples, width + 1), np.float32)
        self.gradient = np.empty_like(self.units)  # on the way forward the input of the activation
        self.inside, self.ones = self.gradient[:, :-1], self.gradient[:, -1]


class Memory:
    """Memory for mini-batches of each size, as little of it as possible, for the cache's sake: trunks take turns."""

    def __init__(self, hidden_sizes: tuple[int, ...]) -> None:
        self._hidden_sizes = hidden_sizes
        self._hidden: dict[int, list[_Hidden]] = {}

    def hidden(self, num_samples: int) -> list[_Hidden]:
        """One for each hidden layer."""
        if num_samples not in self._hidden:
            self._hidden[num_samples] = [_Hidden(num_samples, width) for width in self._hidden_sizes]
        return self._hidden[num_samples]


class TrunkGradient:
    """The gradient of the PPO loss of a mini-batch with respect to one trunk.

    The policy and entropy terms move the actor alone and the value term the critic alone, so the two parts of the
    gradient can be computed apart.
    """

    def __init__(
        self,
        network: NetworkSpec,
        settings: LossSettings,
        trunk: Trunk,
        *,
        parameters: FloatArray,
        gradient: FloatArray,
        memory: Memory,
    ) -> None:
        """Reads the trunk's parameters and writes its gradient, both as in `network.part(trunk)`, at every call."""
        self._memory = memory
        view, ones = network.view(trunk), (network.obs_size, network.obs_size + 1)
        self._columns = columns_of(joined((*view, ones)) if view else view)
        start = network.part(trunk).start
        layers = [layer._replace(start=layer.start - start) for layer in network.trunk(trunk)]
        self._weights = [layer.view(parameters) for layer in layers]
        self._gradients = [layer.view(gradient) for layer in layers]
        # BLAS takes half as long again for a transposed factor of this size as for a copy of it.
        self._transposed = [np.empty((layer.outputs, layer.inputs), np.float32) for layer in layers]
        self._multiply_back = np.matmul if layers[-1].outputs > 1 else np.multiply  # by a column: 4 times as quick
        self._activation = NUMPY_ACTIVATIONS[network.activation]
        self._backward = _BACKWARD[network.activation]
        self._differentiate: Callable[[Minibatch, FloatArray], FloatArray]
        if trunk == "critic":
            self._differentiate = _ValueLoss(settings)
        else:
            own = network.log_std_slice
            head = network.distribution.gradient(parameters[own], gradient[own], entropy_coef=settings.entropy_coef)
            self._differentiate = _PolicyLoss(head)

    def compute(self, minibatch: Minibatch) -> None:
        """Writes the gradient of the mean loss over these samples, and what is reported of them."""
        hidden, x = self._memory.hidden(len(minibatch.logp)), minibatch.obs[self._columns]
        obs = x
        activate, before_one = self._activation
        for layer, weights in zip(hidden, self._weights, strict=False):
            np.matmul(x, weights, out=layer.inside)
            layer.ones.fill(before_one)
            activate(layer.gradient, layer.units)
            x = layer.units
        d_output = self._differentiate(minibatch, x.dot(self._weights[-1]))
        for depth in range(len(hidden), 0, -1):
            layer = hidden[depth - 1]
            np.matmul(layer.units.T, d_output, out=self._gradients[depth])
            if depth == len(hidden):
                self._multiply_back(d_output, self._weights[-1].T, out=layer.gradient)
            else:
                np.copyto(self._transposed[depth], self._weights[depth][:-1].T)
                np.matmul(d_output, self._transposed[depth], out=layer.inside)
            self._backward(layer.units, layer.gradient)
            d_output = layer.inside
        np.matmul(obs.T, d_output, out=self._gradients[0])


def _surrogate(minibatch: Minibatch) -> FloatArray:
    """d loss / d logp [n] of the clipped surrogate, from the mini-batch's log-ratios."""
    log_ratio = np.minimum(minibatch.log_ratio, np.float32(LOG_RATIO_MAX), out=minibatch.log_ratio)
    moves = np.less_equal(log_ratio, minibatch.highest)
    moves &= np.greater_equal(log_ratio, minibatch.lowest)
    d_logp = np.exp(log_ratio)
    d_logp *= minibatch.weight
    d_logp *= moves
    return d_logp


class _PolicyLoss:
    """Returns d loss / d output [n, A] of the clipped surrogate and the entropy bonus, by way of the distribution."""

    def __init__(self, gradient: HeadGradient) -> None:
        self._gradient = gradient

    def __call__(self, minibatch: Minibatch, output: FloatArray) -> FloatArray:
        self._gradient.log_ratio(
            minibatch.act, output, minibatch.logp, out=minibatch.log_ratio, entropy=minibatch.entropy
        )
        return self._gradient.backward(_surrogate(minibatch))


class _ValueLoss:
    """Returns d loss / d value [n, 1] of the squared error, the clipped one where a clip is set."""

    def __init__(self, settings: LossSettings) -> None:
        self._coef, self._clip = settings.value_coef, settings.value_clip_range

    def __call__(self, minibatch: Minibatch, output: FloatArray) -> FloatArray:
        value = output[:, 0]
        difference = value - minibatch.ret
        error = np.multiply(difference, difference, out=minibatch.error)
        clip = self._clip
        if clip is not None:
            moved = value - minibatch.value
            held_error = np.square(minibatch.value + moved.clip(-clip, clip) - minibatch.ret)
            # Where the held value has the larger error it decides, and it does not move with the critic.
            difference[(held_error > error) & (np.abs(moved) > clip)] = 0.0
            np.maximum(error, held_error, out=error)
        difference *= np.float32(2.0 * self._coef / len(value))
        return difference[:, None]
