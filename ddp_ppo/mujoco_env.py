"""The MuJoCo backend: K simulations of one Gymnasium MuJoCo task, stepped, scored and reset as arrays.

Whether observations and rewards are finite is for the trainer to check, once per rollout.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.env_errors import EnvError, describe_cause
from ddp_ppo.env_spaces import action_fields
from ddp_ppo.env_state import generator_from
from ddp_ppo.gymnasium_env import build_env
from ddp_ppo.mujoco_tasks import bind_task
from ddp_ppo.protocols import EnvSpec, FloatArray, PlainState, Step


class MujocoEnv:
    """`BatchEnv` for the tasks that `mujoco_tasks.covers`."""

    def __init__(
        self,
        env_id: str,
        num_envs: int,
        *,
        env_kwargs: Mapping[str, Any] | None = None,
        max_episode_steps: int | None = None,
        remove_profiler_clock: bool = True,
    ) -> None:
        """Gymnasium's own class, built once and closed, checks the arguments and loads the model. Raises EnvError."""
        env, limit = build_env(env_id, env_kwargs or {}, max_episode_steps, remove_profiler_clock)
        self._task, self._physics = bind_task(env, num_envs)
        obs_size = sum(column.shape[1] for column in self._task.columns)
        assert env.observation_space.shape == (obs_size,)
        actions = action_fields(env.action_space)
        env.close()
        self.spec = EnvSpec(env_id=env_id, obs_size=obs_size, max_episode_steps=limit, backend="mujoco", **actions)
        self.num_envs = num_envs
        self._limit = limit or sys.maxsize
        self._num_steps = 0  # since reset()
        self._started = np.zeros(num_envs, np.int64)  # value of num_steps at which the current episode began
        self._next_limit = self._limit  # no episode can reach its limit before this value of num_steps
        self._generators: list[np.random.Generator] = []
        self._terms: dict[str, NDArray[Any]] = {}
        self._result = Step(
            obs=np.zeros((num_envs, obs_size), np.float32),
            reward=np.zeros(num_envs),
            terminated=np.zeros(num_envs, np.bool_),
            truncated=np.zeros(num_envs, np.bool_),
            final_obs=np.zeros((num_envs, obs_size), np.float32),
        )
        ends = np.cumsum([column.shape[1] for column in self._task.columns])
        rows = np.split(self._result.obs, ends[:-1], axis=1)
        self._copies = list(zip(rows, self._task.columns, strict=True))

    def reset(self, seeds: Sequence[int]) -> FloatArray:
        """Starts new episodes, environment i seeded with seeds[i] as Gymnasium seeds; later resets go on from there."""
        self._generators = [np.random.default_rng(int(seed)) for seed in seeds]  # what Gymnasium's seeding makes
        self._num_steps = 0
        self._start_episodes(np.arange(self.num_envs, dtype=np.int32))
        self._task.remember()
        return self._result.obs

    def step(self, action: NDArray[Any]) -> Step:
        """Steps all simulations once; raises EnvError where MuJoCo itself fails."""
        action = np.asarray(action, np.float32)
        task, physics, result = self._task, self._physics, self._result
        self._num_steps += 1
        physics.ctrl[...] = action
        try:
            physics.step()
        except RuntimeError as error:
            raise EnvError(f"{self.spec.env_id}: failed in step {self._num_steps}: {describe_cause(error)}") from error
        task.refresh()
        reward, self._terms, terminated = task.score(action)
        result.reward[...] = reward
        result.truncated.fill(False)
        self._observe()
        has_ended = False
        if terminated is not None:
            result.terminated[...] = terminated
            has_ended = bool(np.count_nonzero(terminated))
        if has_ended or self._num_steps >= self._next_limit:
            self._end_episodes()
        task.remember()
        return result

    def save(self) -> PlainState:
        """The exact state: physics with warm start, generators, positions that the next reward compares with."""
        return {
            "physics": self._physics.save(),
            "memory": None if self._task.memory is None else self._task.memory.copy(),
            "rng": [generator.bit_generator.state for generator in self._generators],
            "elapsed": self._num_steps - self._started,
            "num_steps": self._num_steps,
            "obs": self._result.obs.copy(),
        }

    def restore(self, state: PlainState) -> FloatArray:
        """Continues from what `save` of the same task and number of environments returned."""
        if np.shape(state.get("physics", 0)) != self._physics.save().shape:
            raise EnvError(
                f"{self.spec.env_id}: the saved state does not fit {self.num_envs} environments of this task"
            )
        self._physics.restore(state["physics"])
        if self._task.memory is not None:
            self._task.memory[...] = state["memory"]
        self._generators = [generator_from(rng_state) for rng_state in state["rng"]]
        self._num_steps = int(state["num_steps"])
        self._started[...] = self._num_steps - state["elapsed"]
        self._next_limit = int(self._started.min()) + self._limit
        self._result.obs[...] = state["obs"]
        return self._result.obs

    def reward_terms(self) -> Mapping[str, NDArray[np.float64]]:
        """The parts of the last step's reward under the names of Gymnasium's infos (`reward_*`)."""
        return {name: np.asarray(term, np.float64) for name, term in self._terms.items()}

    def close(self) -> None:
        """Nothing to do: memory is freed with the object."""

    def _observe(self) -> None:
        for row, column in self._copies:
            row[...] = column  # the one cast to float32

    def _end_episodes(self) -> None:
        obs, _, terminated, truncated, final_obs = self._result
        np.greater_equal(self._num_steps - self._started, self._limit, out=truncated)
        ended = terminated | truncated
        final_obs[ended] = obs[ended]
        self._start_episodes(np.flatnonzero(ended).astype(np.int32))

    def _start_episodes(self, ids: NDArray[np.int32]) -> None:
        starts = [self._task.draw(self._generators[index]) for index in ids]
        self._physics.restart(ids, np.stack([qpos for qpos, _ in starts]), np.stack([qvel for _, qvel in starts]))
        self._started[ids] = self._num_steps
        self._next_limit = int(self._started.min()) + self._limit
        self._task.refresh()
        self._observe()
