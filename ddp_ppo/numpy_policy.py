"""The actor's side of an MLP policy in NumPy: noise drawn up front, one small forward pass per step, no torch.

The torch policy (`policy.py`) is the definition; this one agrees with it within 1e-6 and is 5 to 10 times quicker for
the few rows that an actor has.

Shapes: T rollout_length, K environments of the actor, M rows, D observation size, A action size.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.distributions import LOG_STD_MAX, LOG_STD_MIN, categorical_logp, gaussian_logp
from ddp_ppo.moments import RmsState
from ddp_ppo.networks import NetworkSpec, NumpyMlp
from ddp_ppo.protocols import EnvSpec, FloatArray

OBS_CLIP = 10.0  # normalised observations are held inside +-10 (standard deviations)
_VARIANCE_FLOOR = 1e-8
_ROWS = 512  # rows of one batched forward pass; more would leave the cache


class Normalizer:
    """clip((obs - mean) / sqrt(var + 1e-8), -10, 10) in float32; without a state the identity."""

    def __init__(self, size: int) -> None:
        self.mean = np.zeros(size, np.float32)
        self._padded_inv_std = np.ones(size + 1, np.float32)
        self.inv_std = self._padded_inv_std[:-1]
        self.clip = np.array(np.inf, np.float32)  # 0-d arrays are quicker to compute with than scalars
        self._low = np.array(-np.inf, np.float32)

    def load(self, state: RmsState | None) -> None:
        """Freezes this state until the next call; None is the identity."""
        self.mean[:] = 0.0 if state is None else state["mean"]
        self.inv_std[:] = 1.0 if state is None else 1.0 / np.sqrt(state["var"] + _VARIANCE_FLOOR)
        self.clip[...] = np.inf if state is None else OBS_CLIP
        self._low[...] = -self.clip

    def __call__(self, obs: FloatArray, out: FloatArray) -> None:
        """Writes the normalised obs [M, D] to out [M, D + 1], whose last column is 1 and stays so."""
        np.subtract(obs, self.mean, out[:, :-1])
        np.multiply(out, self._padded_inv_std, out)
        np.maximum(out, self._low, out=out)
        np.minimum(out, self.clip, out=out)


class NumpyPolicy:
    """Acts for K environments during a rollout of T steps, then evaluates the whole of it in batches."""

    def __init__(self, network: NetworkSpec, env: EnvSpec, num_envs: int, num_steps: int) -> None:
        self._network = network
        self._normalize = Normalizer(network.obs_size)
        self._actor = NumpyMlp(network.trunk("actor"), network.activation, num_envs)
        self._critic = NumpyMlp(network.trunk("critic"), network.activation, _ROWS)
        self._is_gaussian = network.head == "gaussian"
        self._low = np.array(env.action_low, np.float32)
        self._high = np.array(env.action_high, np.float32)
        self._env_action = np.empty((num_envs, network.action_size), np.float32)
        self._output = np.empty((num_envs, network.action_size), np.float32)
        self._noise = np.empty((num_steps, num_envs, network.action_size), np.float32)
        self._scaled_noise = self._noise
        # Means or logits of the rollout.
        self.outputs = np.empty((num_steps, num_envs, network.action_size), np.float32)

    def load(self, parameters: FloatArray, obs_rms_state: RmsState | None) -> None:
        """Acts with a copy of these parameters [P] and this frozen state."""
        self._normalize.load(obs_rms_state)
        self._actor.load(parameters)
        self._critic.load(parameters)
        self._log_std = np.clip(parameters[self._network.log_std_slice], LOG_STD_MIN, LOG_STD_MAX)
        self._std = np.exp(self._log_std)

    def begin(self, generator: np.random.Generator) -> None:
        """Draws the noise of a whole rollout: standard normal, or Gumbel for a categorical."""
        if self._is_gaussian:
            generator.standard_normal(dtype=np.float32, out=self._noise)
            self._scaled_noise = self._noise * self._std
        else:
            self._scaled_noise = generator.gumbel(size=self._noise.shape).astype(np.float32)

    def act(self, step: int, obs: FloatArray, act: NDArray[Any]) -> NDArray[Any]:
        """Samples the actions of one step.

        Args:
            step: 0 .. T-1.
            obs: [K, D] raw.
            act: [K, A] float32 or [K] int64; the raw sample is written here.

        Returns:
            What the environment gets: the sample clipped to the bounds, or the choices; valid until the next call.
        """
        output = self.outputs[step]
        self._normalize(obs, self._actor.input)
        self._actor.forward(output)
        if self._is_gaussian:
            np.add(output, self._scaled_noise[step], out=act)
            return self._clip(act)
        np.argmax(output + self._scaled_noise[step], axis=-1, out=act)
        return act

    def mode(self, obs: FloatArray) -> NDArray[Any]:
        """The deterministic action for the environment: the clipped mean [K, A] or the likeliest choice [K]."""
        self._normalize(obs, self._actor.input)
        self._actor.forward(self._output)
        return self._clip(self._output) if self._is_gaussian else np.argmax(self._output, axis=-1)

    def _clip(self, act: NDArray[Any]) -> NDArray[Any]:
        np.maximum(act, self._low, out=self._env_action)
        return np.minimum(self._env_action, self._high, out=self._env_action)

    def logp(self, act: NDArray[Any]) -> FloatArray:
        """log-probabilities [T, K] of the rollout's samples act, from the outputs that the steps left in `outputs`."""
        if self._is_gaussian:
            return np.asarray(gaussian_logp(act, self.outputs, self._log_std, self._std), np.float32)
        return categorical_logp(act.astype(np.int64, copy=False), self.outputs)

    def values(self, obs: FloatArray) -> FloatArray:
        """The critic's values [M] of raw observations [M, D], in blocks of a fixed size."""
        values = np.empty((len(obs), 1), np.float32)
        block = np.empty((_ROWS, 1), np.float32)
        for start in range(0, len(obs), _ROWS):
            rows = obs[start : start + _ROWS]
            self._normalize(rows, self._critic.input[: len(rows)])
            self._critic.forward(block)
            values[start : start + len(rows)] = block[: len(rows)]
        return values[:, 0]
