"""The actor's side of an MLP policy in NumPy: noise drawn up front, one small forward pass per step, no torch.

The torch policy (`torch_policy.py`) is the definition; this one agrees with it within 1e-6 and is 5 to 10 times
quicker for the few rows that an actor has.

Shapes: T rollout_length, K environments of the actor, M rows, D observation size, A action size.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.maths.distributions import LOG_STD_MAX, LOG_STD_MIN
from ddp_ppo.maths.moments import RmsState
from ddp_ppo.policies.feedforward import rollout_values
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.policies.normalizer import Normalizer
from ddp_ppo.policies.numpy_mlp import NumpyMlp
from ddp_ppo.protocols import NO_STATE, Arrays, EnvSpec, FloatArray

_ROWS = 512  # rows of one batched forward pass; more would leave the cache


class NumpyPolicy:
    """`Policy` for MLPs: acts for K environments during a rollout of T steps, then evaluates all of it in batches."""

    state_size = 0

    def __init__(self, network: NetworkSpec, env: EnvSpec, num_envs: int, num_steps: int) -> None:
        """Acts for K environments, T steps at a time; the network must have no convolutions."""
        assert network.is_mlp
        self._network = network
        self._actor_input = Normalizer(network.obs_size, num_envs, view=network.actor_view)
        self._critic_input = Normalizer(network.obs_size, _ROWS, view=network.critic_view)
        self._actor = NumpyMlp(network.trunk("actor"), network.activation, num_envs)
        self._critic = NumpyMlp(network.trunk("critic"), network.activation, _ROWS)
        self.head = network.distribution
        self._sampler = self.head.sampler(num_steps, num_envs)
        self._to_env = env.action.fixed_rows(num_envs)
        self._log_std = np.zeros(self.head.num_log_std, np.float32)
        self._output = np.empty((num_envs, network.action_size), np.float32)
        self.outputs = np.empty((num_steps, num_envs, network.action_size), np.float32)

    def load(self, parameters: FloatArray, obs_rms_state: RmsState | None) -> None:
        """See `Policy`; log_std outside its range acts as its bound."""
        for normalizer, mlp in ((self._actor_input, self._actor), (self._critic_input, self._critic)):
            normalizer.load(obs_rms_state)
            mlp.load(parameters, normalizer.inv_std)
        self._log_std = np.clip(parameters[self._network.log_std_slice], LOG_STD_MIN, LOG_STD_MAX)

    def begin(self, generator: np.random.Generator) -> None:
        """See `Policy`."""
        self._sampler.begin(generator, self._log_std)

    def act(self, step: int, obs: FloatArray, act: NDArray[Any], state: FloatArray = NO_STATE) -> NDArray[Any]:
        """See `Policy`."""
        output = self.outputs[step]
        self._actor_input.centre(obs, self._actor.input)
        self._actor.forward(output)
        self._sampler.sample(step, output, act)
        actions: NDArray[Any] = self._to_env(act)
        return actions

    def mode(self, obs: FloatArray, state: FloatArray = NO_STATE) -> NDArray[Any]:
        """See `Policy`."""
        self._actor_input.centre(obs, self._actor.input)
        self._actor.forward(self._output)
        actions: NDArray[Any] = self._to_env(self.head.mode(self._output))
        return actions

    def logp(self, act: NDArray[Any]) -> FloatArray:
        """See `Policy`."""
        return np.asarray(self.head.logp(act, self.outputs, self._log_std), np.float32)

    def rollout_values(self, slices: Arrays) -> tuple[FloatArray, FloatArray]:
        """See `Policy`."""
        return rollout_values(self.values, slices)

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
