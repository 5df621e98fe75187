"""The actor's side of an MLP policy in NumPy: noise drawn up front, one small forward pass per step, no torch.

The torch policy (`torch_policy.py`) is the definition; this one agrees with it within 1e-6 and is 5 to 10 times
quicker for the few rows that an actor has.

Shapes: T rollout_length, K environments of the actor, M rows, D observation size, A action size.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.maths.distributions import LOG_STD_MAX, LOG_STD_MIN, categorical_logp, gaussian_logp
from ddp_ppo.maths.moments import RmsState
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.policies.normalizer import Normalizer
from ddp_ppo.policies.numpy_mlp import NumpyMlp
from ddp_ppo.protocols import EnvSpec, FloatArray

_ROWS = 512  # rows of one batched forward pass; more would leave the cache


class NumpyPolicy:
    """Acts for K environments during a rollout of T steps, then evaluates the whole of it in batches."""

    def __init__(self, network: NetworkSpec, env: EnvSpec, num_envs: int, num_steps: int) -> None:
        assert network.is_mlp  # convolutions are torch's
        self._network = network
        self._actor_input, self._critic_input = (Normalizer(network.obs_size, rows) for rows in (num_envs, _ROWS))
        self._actor = NumpyMlp(network.trunk("actor"), network.activation, num_envs)
        self._critic = NumpyMlp(network.trunk("critic"), network.activation, _ROWS)
        self._is_gaussian = network.head == "gaussian"
        self._low, self._high = (
            np.tile(np.array(bound, np.float32), (num_envs, 1)) for bound in (env.action_low, env.action_high)
        )
        self._env_action = np.empty((num_envs, network.action_size), np.float32)
        self._output = np.empty((num_envs, network.action_size), np.float32)
        self._noise = np.empty((num_steps, num_envs, network.action_size), np.float32)
        self._scaled_noise = self._noise
        # Means or logits of the rollout.
        self.outputs = np.empty((num_steps, num_envs, network.action_size), np.float32)

    def load(self, parameters: FloatArray, obs_rms_state: RmsState | None) -> None:
        """Acts with a copy of these parameters [P] and this frozen state."""
        for normalizer, mlp in ((self._actor_input, self._actor), (self._critic_input, self._critic)):
            normalizer.load(obs_rms_state)
            mlp.load(parameters, normalizer.inv_std)
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
        self._actor_input.centre(obs, self._actor.input)
        self._actor.forward(output)
        if self._is_gaussian:
            np.add(output, self._scaled_noise[step], act)
            return self._clip(act)
        np.argmax(output + self._scaled_noise[step], axis=-1, out=act)
        return act

    def mode(self, obs: FloatArray) -> NDArray[Any]:
        """The deterministic action for the environment: the clipped mean [K, A] or the likeliest choice [K]."""
        self._actor_input.centre(obs, self._actor.input)
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
        num_rows = len(obs)
        values = np.empty((num_rows + _ROWS, 1), np.float32)
        for start in range(0, num_rows, _ROWS):
            rows = obs[start : start + _ROWS]
            if len(rows) < _ROWS:
                rows = np.resize(rows, (_ROWS, rows.shape[1]))  # repeated; what is made of the rest is dropped
            self._critic_input.centre(rows, self._critic.input)
            self._critic.forward(values[start : start + _ROWS])
        return values[:num_rows, 0]
