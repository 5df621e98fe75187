"""The policy of an actor that has not exactly one block of environments: one policy for each block that it touches.

Each always computes with all rows of its block, zeros in place of those that other actors have, so that the bits of a
row do not depend on who computes it. Torch-free.

Shapes: T rollout_length, K environments of the actor, A action size, S state size of the policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.maths.moments import RmsState
from ddp_ppo.protocols import NO_STATE, Arrays, FloatArray, Policy
from ddp_ppo.sampling.blocks import Part
from ddp_ppo.sampling.final_obs import FinalObs


class BlockPolicy:
    """`Policy` for K environments, made of policies for complete blocks."""

    def __init__(self, policies: Sequence[Policy], parts: Sequence[Part]) -> None:
        """Takes one policy for each part, which acts for as many environments as the part's block has."""
        self._blocks = [_Block(policy, part) for policy, part in zip(policies, parts, strict=True)]
        self.state_size, self.head = policies[0].state_size, policies[0].head

    @property
    def outputs(self) -> FloatArray:
        """See `Policy`."""
        return np.concatenate([block.policy.outputs[:, block.inside] for block in self._blocks], axis=1)

    def load(self, parameters: FloatArray, obs_rms_state: RmsState | None) -> None:
        """See `Policy`."""
        for block in self._blocks:
            block.policy.load(parameters, obs_rms_state)

    def begin(self, generator: np.random.Generator) -> None:
        """See `Policy`; block after block. The policies can also be given a generator each."""
        for block in self._blocks:
            block.policy.begin(generator)

    def act(self, step: int, obs: FloatArray, act: NDArray[Any], state: FloatArray = NO_STATE) -> NDArray[Any]:
        """See `Policy`."""
        return np.concatenate([block.act(step, obs, act, state) for block in self._blocks])

    def mode(self, obs: FloatArray, state: FloatArray = NO_STATE) -> NDArray[Any]:
        """See `Policy`."""
        return np.concatenate([block.mode(obs, state) for block in self._blocks])

    def logp(self, act: NDArray[Any]) -> FloatArray:
        """See `Policy`."""
        logp = [block.policy.logp(block.padded(act))[:, block.inside] for block in self._blocks]
        return np.concatenate(logp, axis=1)

    def rollout_values(self, slices: Arrays) -> tuple[FloatArray, FloatArray]:
        """See `Policy`."""
        found = []
        for block in self._blocks:
            pair = block.policy.rollout_values({name: block.padded(array) for name, array in slices.items()})
            found.append([values[:, block.inside] for values in pair])
        value, final_value = (np.concatenate(values, axis=1) for values in zip(*found, strict=True))
        return value, final_value


class _Block:
    """A policy for all rows of a block, of which `own` are the actor's rows."""

    def __init__(self, policy: Policy, part: Part) -> None:
        self.policy = policy
        _, self._size, self._own, self.inside = part
        self._state = np.zeros((part.size, policy.state_size), np.float32)
        self._act = np.zeros((part.size, *policy.head.act_shape), policy.head.act_dtype)
        self._obs: FloatArray = np.zeros((0, 0), np.float32)

    def act(self, step: int, obs: FloatArray, act: NDArray[Any], state: FloatArray) -> NDArray[Any]:
        """What the environments of the actor get; their rows of act and state are written."""
        actions = self.policy.act(step, self._enter(obs, state), self._act, self._state)
        act[self._own] = self._act[self.inside]
        return self._leave(actions, state)

    def mode(self, obs: FloatArray, state: FloatArray) -> NDArray[Any]:
        """The same for deterministic actions."""
        return self._leave(self.policy.mode(self._enter(obs, state), self._state), state)

    def _enter(self, obs: FloatArray, state: FloatArray) -> FloatArray:
        if not len(self._obs):
            self._obs = np.zeros((self._size, *obs.shape[1:]), obs.dtype)
        self._obs[self.inside] = obs[self._own]
        if self.policy.state_size:
            self._state.fill(0.0)
            self._state[self.inside] = state[self._own]
        return self._obs

    def _leave(self, actions: NDArray[Any], state: FloatArray) -> NDArray[Any]:
        if self.policy.state_size:
            state[self._own] = self._state[self.inside]
        return actions[self.inside]

    def padded(self, array: Any) -> Any:
        """The actor's part of an array [T(+1), K, ...] among zeros, as all rows of the block."""
        if isinstance(array, FinalObs):
            return array.among(self._size, self._own, self.inside)
        rows = np.zeros((len(array), self._size, *array.shape[2:]), array.dtype)
        rows[:, self.inside] = array[:, self._own]
        return rows
