"""The gradient step of PPO for MLP policies, derived by hand and written in NumPy with preallocated memory.

`ppo_torch.TorchUpdate` is the definition; this one computes the same numbers (parameters within 1e-6 after 50
mini-batches) about ten times faster for mini-batches of 64, where torch spends its time on calls, not on arithmetic. It
trains the policy's own flat vector and Adam state through NumPy views of them.

Shapes: N samples, n samples of a mini-batch, D observation size, H hidden units, A action size, P parameters. Hidden
layers of actor and critic are one stacked array [2, ...]; inputs carry a last column of ones for the bias.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ddp_ppo.distributions import LOG_RATIO_MAX, gaussian_entropy
from ddp_ppo.networks import NUMPY_ACTIVATIONS, NetworkSpec
from ddp_ppo.policy import ActorCritic
from ddp_ppo.ppo_torch import ADAM_BETAS, Batch, EpochStats, LossSettings, OptimizerState
from ddp_ppo.protocols import FloatArray

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


def _tanh_backward(hidden: FloatArray, gradient: FloatArray, scratch: FloatArray) -> None:
    np.multiply(hidden, hidden, out=scratch)
    np.subtract(1.0, scratch, out=scratch)
    np.multiply(gradient, scratch, out=gradient)


def _relu_backward(hidden: FloatArray, gradient: FloatArray, scratch: FloatArray) -> None:
    np.multiply(gradient, hidden > 0.0, out=gradient)


def _elu_backward(hidden: FloatArray, gradient: FloatArray, scratch: FloatArray) -> None:
    np.minimum(hidden, 0.0, out=scratch)
    np.add(scratch, 1.0, out=scratch)
    np.multiply(gradient, scratch, out=gradient)


_BACKWARD = {"tanh": _tanh_backward, "relu": _relu_backward, "elu": _elu_backward}


class _Layers:
    """The flat vector [P] seen as matrices: stacked hidden blocks [2, inputs + 1, H] and the two output blocks."""

    def __init__(self, network: NetworkSpec, flat: FloatArray) -> None:
        *hidden, actor, critic = network.layers
        self.hidden = [
            flat[layer.start : layer.start + 2 * layer.size].reshape(2, layer.inputs + 1, layer.outputs)
            for layer in hidden[::2]
        ]
        self.actor: FloatArray = actor.view(flat)
        self.critic: FloatArray = critic.view(flat)
        self.log_std = flat[network.log_std_slice]


class _Workspace:
    """Memory of one mini-batch of n samples: activations with their column of ones, and gradients."""

    def __init__(self, network: NetworkSpec, num_samples: int) -> None:
        widths = network.hidden_sizes
        self.inputs = [np.ones((2, num_samples, width + 1), np.float32) for width in widths]
        self.hidden = [array[:, :, :-1] for array in self.inputs]
        self.gradient = [np.empty((2, num_samples, width), np.float32) for width in widths]
        self.scratch = [np.empty((2, num_samples, width), np.float32) for width in widths]
        self.output = np.empty((num_samples, network.action_size), np.float32)
        self.value = np.empty((num_samples, 1), np.float32)


class NumpyUpdate:
    """Gradient steps for an MLP with a Gaussian or categorical head; every option of `LossSettings`."""

    def __init__(
        self,
        policy: ActorCritic,
        optimizer: OptimizerState,
        settings: LossSettings,
        average_gradient: Callable[[Tensor], None],
    ) -> None:
        network = policy.network
        self._network = network
        self._settings = settings
        self._average_gradient = average_gradient
        self._flat: FloatArray = policy.flat.data.numpy()
        self._exp_avg: FloatArray = optimizer.exp_avg.numpy()
        self._exp_avg_sq: FloatArray = optimizer.exp_avg_sq.numpy()
        self._step = optimizer.step
        self._gradient = np.zeros_like(self._flat)
        self._gradient_tensor = torch.from_numpy(self._gradient)
        self._scratch = np.empty_like(self._flat)
        self._weights = _Layers(network, self._flat)
        self._gradients = _Layers(network, self._gradient)
        self._activate = NUMPY_ACTIVATIONS[network.activation]
        self._backward = _BACKWARD[network.activation]
        self._workspaces: dict[int, _Workspace] = {}
        self._batch: Batch

    def load(self, batch: Batch) -> None:
        """Takes the samples of a round; gives every observation its column of ones."""
        num_samples = len(batch.adv)
        self._obs = np.ones((num_samples, self._network.obs_size + 1), np.float32)
        self._obs[:, :-1] = batch.obs.numpy()
        self._columns = [array.numpy() for array in batch[1:]]

    def epoch(self, order: NDArray[np.int64], minibatch_size: int, learning_rate: float) -> EpochStats:
        """One pass over all samples in this order [N]; the samples are gathered once, what is reported comes last."""
        obs = self._obs[order]
        act, logp, adv, ret, value = (column[order] for column in self._columns)
        self._log_ratio = np.empty(len(order), np.float32)
        self._error = np.empty(len(order), np.float32)
        self._entropy = np.empty(len(order), np.float32)
        grad_norms = []
        for start in range(0, len(order), minibatch_size):
            part = slice(start, min(start + minibatch_size, len(order)))
            self._differentiate(part, obs[part], act[part], logp[part], adv[part], ret[part], value[part])
            grad_norms.append(self._adam(learning_rate))
        ratio = np.exp(self._log_ratio)
        clip = self._settings.clip_range
        surrogate = np.maximum(-adv * ratio, -adv * ratio.clip(1.0 - clip, 1.0 + clip))
        return EpochStats(
            float(surrogate.mean()),
            float(self._error.mean()),
            float(self._entropy.mean()),
            float((ratio - 1.0 - self._log_ratio).mean()),
            float((np.abs(ratio - 1.0) > clip).mean()),
            float(np.mean(grad_norms)),
        )

    def _differentiate(
        self,
        part: slice,
        obs: FloatArray,
        act: NDArray[Any],
        logp: FloatArray,
        adv: FloatArray,
        ret: FloatArray,
        value: FloatArray,
    ) -> None:
        """Writes the gradient of the mini-batch's loss to the gradient vector, and what is reported to row `part`."""
        num_samples = len(adv)
        if num_samples not in self._workspaces:
            self._workspaces[num_samples] = _Workspace(self._network, num_samples)
        work, weights, gradients = self._workspaces[num_samples], self._weights, self._gradients
        # Forward. obs [n, D + 1] is broadcast over the two trunks.
        inputs: list[FloatArray] = [obs, *work.inputs]
        for x, block, hidden in zip(inputs, weights.hidden, work.hidden, strict=False):
            np.matmul(x, block, out=hidden)
            self._activate(hidden, hidden)
        last = work.inputs[-1] if work.inputs else np.broadcast_to(obs, (2, *obs.shape))
        np.matmul(last[0], weights.actor, out=work.output)
        np.matmul(last[1], weights.critic, out=work.value)
        # Loss, differentiated down to the two outputs.
        if self._network.head == "gaussian":
            d_output = self._gaussian(part, work.output, act, logp, adv)
        else:
            d_output = self._categorical(part, work.output, act, logp, adv)
        d_value = self._value(part, work.value[:, 0], value, ret)
        # Backward.
        np.matmul(last[0].T, d_output, out=gradients.actor)
        np.matmul(last[1].T, d_value, out=gradients.critic)
        if not work.hidden:
            return
        np.matmul(d_output, weights.actor[:-1].T, out=work.gradient[-1][0])
        np.multiply(d_value, weights.critic[:-1, 0], out=work.gradient[-1][1])
        for depth in range(len(work.hidden) - 1, -1, -1):
            d_hidden = work.gradient[depth]
            self._backward(work.hidden[depth], d_hidden, work.scratch[depth])
            np.matmul(np.swapaxes(inputs[depth], -1, -2), d_hidden, out=gradients.hidden[depth])
            if depth:
                back = weights.hidden[depth][:, :-1].swapaxes(1, 2)
                np.matmul(d_hidden, back, out=work.gradient[depth - 1])

    def _surrogate(self, part: slice, new_logp: FloatArray, logp: FloatArray, adv: FloatArray) -> FloatArray:
        """d loss / d logp [n, 1] of the clipped surrogate's mean."""
        log_ratio = np.subtract(new_logp, logp, out=self._log_ratio[part])
        inside = np.abs(log_ratio) <= LOG_RATIO_MAX
        np.minimum(np.maximum(log_ratio, -LOG_RATIO_MAX, out=log_ratio), LOG_RATIO_MAX, out=log_ratio)
        ratio = np.exp(log_ratio)
        clip = self._settings.clip_range
        # The clipped term is the larger one, and flat, where the ratio has already moved further than the clip allows.
        active = inside & np.where(adv > 0.0, ratio <= 1.0 + clip, ratio >= 1.0 - clip)
        return np.asarray(adv * ratio * active * np.float32(-1.0 / len(adv)))[:, None]

    def _gaussian(
        self, part: slice, mean: FloatArray, act: NDArray[Any], logp: FloatArray, adv: FloatArray
    ) -> FloatArray:
        log_std = self._weights.log_std
        inv_std = np.exp(-log_std)
        noise = (act - mean) * inv_std
        constant = float(log_std.sum()) + len(log_std) * _HALF_LOG_2PI
        new_logp = np.einsum("na,na->n", noise, noise) * np.float32(-0.5) - np.float32(constant)
        d_logp = self._surrogate(part, new_logp, logp, adv)
        weighted = noise * d_logp
        # d logp / d log_std = noise ** 2 - 1, and every log_std has entropy gradient 1.
        self._gradients.log_std[:] = np.einsum("na,na->a", weighted, noise) - d_logp.sum()
        self._gradients.log_std[:] -= self._settings.entropy_coef
        self._entropy[part] = gaussian_entropy(log_std)
        return np.multiply(weighted, inv_std, out=weighted)

    def _categorical(
        self, part: slice, logits: FloatArray, act: NDArray[Any], logp: FloatArray, adv: FloatArray
    ) -> FloatArray:
        rows = np.arange(len(adv))
        log_probabilities = logits - logits.max(axis=-1, keepdims=True)
        log_probabilities -= np.log(np.exp(log_probabilities).sum(axis=-1, keepdims=True))
        probabilities = np.exp(log_probabilities)
        entropy = -np.einsum("na,na->n", probabilities, log_probabilities)
        self._entropy[part] = entropy
        d_logp = self._surrogate(part, log_probabilities[rows, act], logp, adv)
        d_logits = probabilities * -d_logp
        d_logits[rows, act] += d_logp[:, 0]
        weight = np.float32(self._settings.entropy_coef / len(adv))
        d_logits += weight * probabilities * (log_probabilities + entropy[:, None])
        return np.asarray(d_logits)

    def _value(self, part: slice, value: FloatArray, old_value: FloatArray, ret: FloatArray) -> FloatArray:
        """d loss / d value [n, 1] of the squared error's mean, the clipped one where a clip is set."""
        difference = value - ret
        error = difference * difference
        clip = self._settings.value_clip_range
        if clip is not None:
            moved = value - old_value
            held_error = np.square(old_value + moved.clip(-clip, clip) - ret)
            # Where the held value has the larger error it decides, and it does not move with the critic.
            difference[(held_error > error) & (np.abs(moved) > clip)] = 0.0
            np.maximum(error, held_error, out=error)
        self._error[part] = error
        return np.asarray(difference * np.float32(2.0 * self._settings.value_coef / len(ret)))[:, None]

    def _adam(self, learning_rate: float) -> float:
        """Averages and clips the gradient, then takes one Adam step (Kingma and Ba 2015); returns the norm."""
        self._average_gradient(self._gradient_tensor)
        gradient, scratch, settings = self._gradient, self._scratch, self._settings
        norm = math.sqrt(float(gradient @ gradient))
        if settings.max_grad_norm is not None and norm > settings.max_grad_norm:
            gradient *= settings.max_grad_norm / (norm + 1e-6)
        beta1, beta2 = ADAM_BETAS
        self._step += 1
        step = float(self._step)
        self._exp_avg *= beta1
        self._exp_avg += np.multiply(gradient, 1.0 - beta1, out=scratch)
        self._exp_avg_sq *= beta2
        np.multiply(gradient, gradient, out=scratch)
        scratch *= 1.0 - beta2
        self._exp_avg_sq += scratch
        np.sqrt(self._exp_avg_sq, out=scratch)
        scratch *= 1.0 / math.sqrt(1.0 - beta2**step)
        scratch += settings.adam_eps
        np.divide(self._exp_avg, scratch, out=scratch)
        scratch *= learning_rate / (1.0 - beta1**step)
        self._flat -= scratch
        return norm
