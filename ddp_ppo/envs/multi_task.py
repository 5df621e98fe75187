"""Several tasks with the same spaces as one batch of environments, so that one agent is trained on all of them at once.

Environment i of a learner plays task i mod n, always the same one. Learners, statistics and files see a single batch;
what tells the tasks apart are their names in messages and the term `episode_return/<id>` for each of them.

Shapes: T rollout_length, K environments, n tasks, D observation size.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.envs.step_loop import run_steps
from ddp_ppo.errors import EnvError
from ddp_ppo.protocols import Act, BatchEnv, EnvSpec, FloatArray, PlainState, Rows, Step

_SPACES = ("obs_size", "image", "obs_scale", "action_kind", "action_size", "action_low", "action_high", "action_start")


def task_ids(env_id: str | Sequence[str]) -> tuple[str, ...]:
    """The ids of the tasks, of which one may be given as it is."""
    return (env_id,) if isinstance(env_id, str) else tuple(env_id)


class Part(NamedTuple):
    """The environments of one task, and which of all environments they are."""

    env: BatchEnv
    own: slice


def mixed_spec(specs: Sequence[EnvSpec]) -> EnvSpec:
    """What a policy has to know of all tasks together; their ids are joined, the time limit is the longest one.

    Raises:
        EnvError: observations or actions of two tasks differ.
    """
    first, limits = specs[0], [spec.max_episode_steps for spec in specs]
    limit = None if None in limits else max(limit or 0 for limit in limits)
    backend = "+".join(sorted({spec.backend for spec in specs}))
    for spec in specs:
        if differs := [name for name in _SPACES if getattr(spec, name) != getattr(first, name)]:
            words = (f"{name} {getattr(first, name)} and {getattr(spec, name)}" for name in differs)
            raise EnvError(
                f"env_ids: one agent needs tasks with the same spaces; {first.env_id} and {spec.env_id} have "
                + ", ".join(words)
            )
    dtype = first.obs_dtype if len({spec.obs_dtype for spec in specs}) == 1 else "float32"
    env_id = ", ".join(spec.env_id for spec in specs)
    return replace(first, env_id=env_id, max_episode_steps=limit, backend=backend, obs_dtype=dtype)


class MixedEnv:
    """`BatchEnv` over the environments of several tasks."""

    def __init__(self, spec: EnvSpec, num_envs: int, parts: Sequence[Part]) -> None:
        """Takes the parts, which together are environments 0 .. num_envs - 1; tasks without one are left out."""
        self.spec, self.num_envs, self._parts = spec, num_envs, parts
        self._open_return = np.zeros(num_envs)  # of the episodes that had not ended at the end of the last rollout
        self._result = Step.allocate(num_envs, spec.obs_size)

    def reset(self, seeds: Sequence[int]) -> FloatArray:
        """Starts new episodes, environment i seeded with seeds[i]."""
        self._open_return[:] = 0.0
        for env, own in self._parts:
            self._result.obs[own] = env.reset(seeds[own])
        return self._result.obs

    def step(self, action: NDArray[Any]) -> Step:
        """Steps every environment once."""
        together: tuple[NDArray[Any], ...] = self._result
        for env, own in self._parts:
            for array, values in zip(together, env.step(np.ascontiguousarray(action[own])), strict=True):
                array[own] = values
        return self._result

    def run_steps(self, act: Act, rows: Rows) -> dict[str, float]:
        """`step_loop.run_steps`, and the mean return of each task's episodes that ended; NaN where none has."""
        terms = run_steps(self, act, rows)
        terms |= {f"episode_return/{env_id}": math.nan for env_id in self.spec.env_id.split(", ")}
        returns = self._finished_returns(rows.reward, rows.terminated | rows.truncated)
        for env, own in self._parts:
            finished = [value for each in returns[own] for value in each]
            terms[f"episode_return/{env.spec.env_id}"] = sum(finished) / len(finished) if finished else math.nan
        return terms

    def _finished_returns(self, reward: NDArray[np.float64], ended: NDArray[np.bool_]) -> list[list[float]]:
        """The returns of each environment's episodes that ended in these T steps."""
        returns = []
        for i in range(self.num_envs):
            ends = np.flatnonzero(ended[:, i])
            total = self._open_return[i] + np.cumsum(reward[:, i])
            returns.append(np.diff(total[ends], prepend=0.0).tolist())
            self._open_return[i] = total[-1] - (total[ends[-1]] if len(ends) else 0.0)
        return returns

    def save(self) -> PlainState | None:
        """The exact state of all environments, or None where those of one task cannot be saved."""
        states = [env.save() for env, _ in self._parts]
        return None if None in states else {"parts": states, "open_return": self._open_return.copy()}

    def restore(self, state: PlainState) -> FloatArray:
        """Continues from what `save` of the same tasks and number of environments returned."""
        if len(state.get("parts", ())) != len(self._parts):
            raise EnvError(f"{self.spec.env_id}: the saved state is not of {len(self._parts)} tasks")
        for (env, own), part in zip(self._parts, state["parts"], strict=True):
            self._result.obs[own] = env.restore(part)
        self._open_return[:] = state["open_return"]
        return self._result.obs

    def reward_terms(self) -> Mapping[str, NDArray[np.float64]]:
        """The terms of every task, [K] each; 0 in the environments of a task that has no such term."""
        terms: dict[str, NDArray[np.float64]] = defaultdict(lambda: np.zeros(self.num_envs))
        for env, own in self._parts:
            for name, values in env.reward_terms().items():
                terms[name][own] = values
        return terms

    def locate(self, index: int) -> tuple[BatchEnv, int]:
        """The batch of its task that environment `index` belongs to, and its index there."""
        every = range(self.num_envs)
        return next((env, every[own].index(index)) for env, own in self._parts if index in every[own])

    def close(self) -> None:
        """Closes every environment."""
        for env, _ in self._parts:
            env.close()
