"""The gradient of the PPO loss for MLP policies, derived by hand and written in NumPy with preallocated memory.

`ppo_torch.ppo_loss` under autograd is the definition; this computes the same numbers about ten times faster for
mini-batches of 64, where torch spends its time on calls, not on arithmetic. Torch-free, so that an idle actor can
compute the critic's part.

Shapes: n samples of a mini-batch, D observation size, H hidden units, A action size, P parameters. Hidden layers of
the S trunks (actor, critic or both) are one stacked array [S, ...]. Inputs of a layer carry a last column of ones,
which multiplies the bias; activations run over that column too, because whole arrays are twice as fast as slices
of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from ddp_ppo.distributions import LOG_RATIO_MAX, log_softmax
from ddp_ppo.networks import NUMPY_ACTIVATIONS, NetworkSpec
from ddp_ppo.protocols import FloatArray

Trunk = Literal["actor", "critic"]
BOTH_TRUNKS: tuple[Trunk, ...] = ("actor", "critic")
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True)
class LossSettings:
    """The settings of one gradient step; None switches a clip off."""

    clip_range: float
    value_clip_range: float | None
    entropy_coef: float
    value_coef: float
    max_grad_norm: float | None
    adam_eps: float


class Samples(NamedTuple):
    """Samples in the order in which they are used."""

    obs: FloatArray  # [n, D + 1] normalised, the last column is 1
    act: NDArray[Any]  # [n, A] float32 or [n] int64
    logp: FloatArray  # [n] of the policy that sampled
    adv: FloatArray  # [n]
    ret: FloatArray  # [n]
    value: FloatArray  # [n] when sampled

    def rows(self, start: int, stop: int) -> Samples:
        """Views of the samples start .. stop-1."""
        return Samples(*(array[start:stop] for array in self))


class Report(NamedTuple):
    """What is reported of each sample, written while its gradient is computed."""

    log_ratio: FloatArray  # [n] log of new over old probability, held inside +-LOG_RATIO_MAX
    error: FloatArray  # [n] squared error of the value, the clipped one where a clip is set
    entropy: FloatArray  # [n]

    def rows(self, start: int, stop: int) -> Report:
        """Views of the samples start .. stop-1."""
        return Report(*(array[start:stop] for array in self))


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


class _Layers:
    """A flat vector [P] seen as matrices: stacked hidden blocks [S, inputs + 1, H] of S trunks, and the outputs'."""

    def __init__(self, network: NetworkSpec, flat: FloatArray, trunks: tuple[Trunk, ...]) -> None:
        *first, _ = network.trunk(trunks[0])
        apart = (network.trunk(trunks[-1])[0].start - network.trunk(trunks[0])[0].start) * flat.itemsize
        self.hidden = []
        for layer in first:  # the trunks' hidden layers have the same shapes, so their blocks are equally far apart
            block = layer.view(flat)
            shape, strides = (len(trunks), *block.shape), (apart, *block.strides)
            self.hidden.append(as_strided(block, shape, strides))
        # BLAS takes half as long again for a transposed factor of this size as for a copy of it.
        self.transposed = [np.empty((len(trunks), *block.shape[:0:-1]), np.float32) for block in self.hidden]
        self.actor: FloatArray = network.trunk("actor")[-1].view(flat)
        self.critic: FloatArray = network.trunk("critic")[-1].view(flat)
        self.log_std = flat[network.log_std_slice]


class _Workspace:
    """Memory of n samples, [S, n, H + 1] for each hidden layer; as little of it as possible, for the cache's sake.

    A layer's `gradient` holds the input of its activation on the way forward.
    """

    def __init__(self, network: NetworkSpec, num_trunks: int, num_samples: int) -> None:
        shapes = [(num_trunks, num_samples, width + 1) for width in network.hidden_sizes]
        self.hidden = [np.empty(shape, np.float32) for shape in shapes]
        self.hidden_transposed = [array.swapaxes(1, 2) for array in self.hidden]
        self.gradient = [np.empty(shape, np.float32) for shape in shapes]
        self.inside = [array[:, :, :-1] for array in self.gradient]  # without the column of ones
        self.ones = [array[:, :, -1] for array in self.gradient]
        self.output = np.empty((num_samples, network.action_size), np.float32)
        self.value = np.empty((num_samples, 1), np.float32)


class PPOGradient:
    """Gradients of the PPO loss of a mini-batch with respect to a flat parameter vector, or to one trunk's part of it.

    The policy and entropy terms move the actor alone and the value term the critic alone, so the two parts of the
    gradient can be computed apart.
    """

    def __init__(
        self,
        network: NetworkSpec,
        settings: LossSettings,
        parameters: FloatArray,
        gradient: FloatArray,
        trunks: tuple[Trunk, ...] = BOTH_TRUNKS,
    ) -> None:
        """Reads parameters [P] and writes its part of gradient [P] at every call; both are views, never copied."""
        self._network = network
        self._settings = settings
        self._trunks = trunks
        self._activation = NUMPY_ACTIVATIONS[network.activation]
        self._backward = _BACKWARD[network.activation]
        self._weights = _Layers(network, parameters, trunks)
        self._gradients = _Layers(network, gradient, trunks)
        self._head = self._gaussian if network.head == "gaussian" else self._categorical
        self._workspaces: dict[int, _Workspace] = {}

    def compute(self, samples: Samples, report: Report) -> None:
        """Writes the gradient of the mean loss over these samples, and what is reported of them."""
        num_samples = len(samples.adv)
        if num_samples not in self._workspaces:
            self._workspaces[num_samples] = _Workspace(self._network, len(self._trunks), num_samples)
        work, weights, gradients = self._workspaces[num_samples], self._weights, self._gradients
        activation = self._activation
        # Forward; obs [n, D + 1] is the input of both trunks.
        last: Any = np.broadcast_to(samples.obs, (len(self._trunks), *samples.obs.shape))
        x: Any = samples.obs
        for depth, block in enumerate(weights.hidden):
            np.matmul(x, block, out=work.inside[depth])
            work.ones[depth].fill(activation.before_one)
            activation.forward(work.gradient[depth], work.hidden[depth])
            last = x = work.hidden[depth]
        # Loss, differentiated down to the outputs, and back through the output layers.
        if "actor" in self._trunks:
            np.matmul(last[0], weights.actor, out=work.output)
            d_output = self._head(samples, report, work.output)
            np.matmul(last[0].T, d_output, out=gradients.actor)
            if work.hidden:
                np.matmul(d_output, weights.actor.T, out=work.gradient[-1][0])
        if "critic" in self._trunks:
            np.matmul(last[-1], weights.critic, out=work.value)
            d_value = self._value(samples, report, work.value[:, 0])
            np.matmul(last[-1].T, d_value, out=gradients.critic)
            if work.hidden:
                np.multiply(d_value, weights.critic[:, 0], out=work.gradient[-1][-1])
        # Backward through the hidden layers.
        for depth in range(len(work.hidden) - 1, -1, -1):
            self._backward(work.hidden[depth], work.gradient[depth])
            inputs = work.hidden_transposed[depth - 1] if depth else samples.obs.T
            np.matmul(inputs, work.inside[depth], out=gradients.hidden[depth])
            if depth:
                np.copyto(weights.transposed[depth], weights.hidden[depth].swapaxes(1, 2))
                np.matmul(work.inside[depth], weights.transposed[depth], out=work.gradient[depth - 1])

    def _surrogate(self, samples: Samples, report: Report, logp: FloatArray) -> FloatArray:
        """d loss / d logp [n] of the clipped surrogate."""
        log_ratio = np.subtract(logp, samples.logp, out=report.log_ratio)
        inside = np.abs(log_ratio) < LOG_RATIO_MAX
        np.minimum(log_ratio, LOG_RATIO_MAX, out=log_ratio)
        np.maximum(log_ratio, -LOG_RATIO_MAX, out=log_ratio)
        ratio = np.exp(log_ratio)
        # The clipped term is the larger one, and flat, where the ratio has moved further than the clip allows.
        moved = (ratio - 1.0) * np.sign(samples.adv)
        inside &= moved <= self._settings.clip_range
        ratio *= samples.adv
        ratio *= inside
        ratio *= np.float32(-1.0 / len(ratio))
        return np.asarray(ratio)

    def _gaussian(self, samples: Samples, report: Report, mean: FloatArray) -> FloatArray:
        log_std = self._weights.log_std
        inv_std = np.exp(-log_std)
        noise = samples.act - mean
        noise *= inv_std
        logp = np.vecdot(noise, noise)
        logp *= np.float32(-0.5)
        log_scale = float(np.add.reduce(log_std)) + len(log_std) * _HALF_LOG_2PI
        logp -= np.float32(log_scale)
        d_logp = self._surrogate(samples, report, logp)
        report.entropy.fill(log_scale + 0.5 * len(log_std))
        # d logp / d log_std = noise ** 2 - 1, and the entropy grows by 1 with each log_std.
        np.matmul(d_logp, noise * noise, out=self._gradients.log_std)
        self._gradients.log_std -= np.float32(np.add.reduce(d_logp) + self._settings.entropy_coef)
        noise *= d_logp[:, None]
        noise *= inv_std
        return noise

    def _categorical(self, samples: Samples, report: Report, logits: FloatArray) -> FloatArray:
        rows = np.arange(len(samples.adv))
        log_probabilities = log_softmax(logits)
        probabilities = np.exp(log_probabilities)
        entropy = -np.vecdot(probabilities, log_probabilities)
        report.entropy[:] = entropy
        d_logp = self._surrogate(samples, report, log_probabilities[rows, samples.act])
        d_logits = probabilities * -d_logp[:, None]
        d_logits[rows, samples.act] += d_logp
        if self._settings.entropy_coef:
            weight = np.float32(self._settings.entropy_coef / len(rows))
            d_logits += weight * probabilities * (log_probabilities + entropy[:, None])
        return np.asarray(d_logits)

    def _value(self, samples: Samples, report: Report, value: FloatArray) -> FloatArray:
        """d loss / d value [n, 1] of the squared error, the clipped one where a clip is set."""
        difference = value - samples.ret
        error = np.multiply(difference, difference, out=report.error)
        clip = self._settings.value_clip_range
        if clip is not None:
            moved = value - samples.value
            held_error = np.square(samples.value + moved.clip(-clip, clip) - samples.ret)
            # Where the held value has the larger error it decides, and it does not move with the critic.
            difference[(held_error > error) & (np.abs(moved) > clip)] = 0.0
            np.maximum(error, held_error, out=error)
        difference *= np.float32(2.0 * self._settings.value_coef / len(value))
        return difference[:, None]
