"""The MuJoCo backend: K simulations of one Gymnasium MuJoCo task, stepped, scored and reset as arrays.

Whether observations and rewards are finite is for the trainer to check, once per rollout.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.envs.gymnasium_env import build_env
from ddp_ppo.envs.mujoco.tasks import bind_task
from ddp_ppo.envs.spaces import action_fields
from ddp_ppo.envs.state import generator_from
from ddp_ppo.errors import EnvError, describe_cause
from ddp_ppo.protocols import Act, BoolArray, EnvSpec, FloatArray, PlainState, Rows, Step


class MujocoEnv:
    """`BatchEnv` for the tasks that `tasks.covers`."""

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
        self._build = partial(build_env, env_id, env_kwargs or {}, max_episode_steps, remove_profiler_clock)
        env, limit = self._build()
        self._task, self._physics = bind_task(env, num_envs)
        obs_size = sum(column.shape[1] for column in self._task.columns)
        assert env.observation_space.shape == (obs_size,)
        actions = action_fields(env.action_space)
        env.close()
        self.spec = EnvSpec(
            env_id=env_id,
            obs_size=obs_size,
            obs_shape=(obs_size,),
            max_episode_steps=limit,
            backend="mujoco",
            **actions,
        )
        self.num_envs = num_envs
        self._limit = limit or sys.maxsize
        self._num_steps = 0  # since reset()
        self._started = np.zeros(num_envs, np.int64)  # value of num_steps at which the current episode began
        self._next_limit = self._limit  # no episode can reach its limit before this value of num_steps
        self._seeds: Sequence[int] = range(num_envs)  # of the last reset()
        self._generators: list[np.random.Generator] = []
        self._terms: dict[str, NDArray[Any]] = {}
        self._x = self._task.seen.get("x", np.zeros(num_envs))  # live
        self._x_before = np.zeros_like(self._x)  # before the next step: the only state besides the physics
        self._result = Step.allocate(num_envs, obs_size)
        ends = np.cumsum([column.shape[1] for column in self._task.columns])
        self._widths = [slice(end - column.shape[1], end) for column, end in zip(self._task.columns, ends, strict=True)]

    def reset(self, seeds: Sequence[int]) -> FloatArray:
        """Starts new episodes, environment i seeded with seeds[i] as Gymnasium seeds; later resets go on from there."""
        self._seeds = seeds
        self._generators = [np.random.default_rng(int(seed)) for seed in seeds]  # what Gymnasium's seeding makes
        self._num_steps = 0
        self._start_episodes(np.arange(self.num_envs, dtype=np.int32))
        self._observe(self._result.obs)
        self._x_before[...] = self._x
        return self._result.obs

    def step(self, action: NDArray[Any]) -> Step:
        """Steps all simulations once; raises EnvError where MuJoCo itself fails."""
        action = np.asarray(action, np.float32)
        task, result = self._task, self._result
        self._physics.ctrl[...] = action
        self._advance(self._physics.step)
        seen = {name: live.copy() for name, live in task.seen.items()}  # a reset changes what is live
        result.reward[...], self._terms = task.judge(self._x_before, seen, action)
        self._observe(result.obs)
        result.terminated.fill(False)
        result.truncated.fill(False)
        if self._has_ended():
            self._end_episodes(result.obs, result.terminated, result.truncated, result.final_obs)
        self._x_before[...] = self._x
        return result

    def run_steps(self, act: Act, rows: Rows) -> dict[str, float]:
        """`step_loop.run_steps` over `step`, to the last bit, with everything that can wait done once at the end."""
        task, num_steps = self._task, len(rows.act)
        seen = {name: np.empty((num_steps, *live.shape), live.dtype) for name, live in task.seen.items()}
        copies = [(list(rows.obs[1:, :, own]), live) for own, live in zip(self._widths, task.columns, strict=True)]
        copies += [(list(seen[name]), live) for name, live in task.seen.items()]
        given = np.empty((num_steps, *self._physics.ctrl.shape), np.float32)
        rows.terminated.fill(False)
        rows.truncated.fill(False)
        x_starts: dict[int, NDArray[np.float64]] = {}
        obs, actions, to_give, ctrl, physics_step = (
            list(rows.obs),
            list(rows.act),
            list(given),
            self._physics.ctrl,
            self._physics.step,
        )
        for step in range(num_steps):
            rows.progress[0] = step
            to_give[step][...] = act(step, obs[step], actions[step])
            ctrl[...] = to_give[step]
            self._advance(physics_step)
            for targets, live in copies:
                targets[step][...] = live
            if self._has_ended():
                self._end_episodes(obs[step + 1], rows.terminated[step], rows.truncated[step], rows.final_obs[step])
                x_starts[step + 1] = self._x.copy()
        x_before = np.concatenate([self._x_before[None], seen.get("x", np.zeros((num_steps, self.num_envs)))])
        for step, x in x_starts.items():
            x_before[step] = x
        rows.reward[...], terms = task.judge(x_before[:-1], seen, given)
        self._x_before[...] = x_before[-1]
        self._result.obs[...] = rows.obs[-1]
        self._terms = {name: values[-1] for name, values in terms.items()}
        return {name: float(values.mean()) for name, values in terms.items()}

    def save(self) -> PlainState:
        """The exact state: physics with warm start, generators, positions that the next reward compares with."""
        return {
            "physics": self._physics.save(),
            "x_before": self._x_before.copy(),
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
        self._x_before[...] = state["x_before"]
        self._generators = [generator_from(rng_state) for rng_state in state["rng"]]
        self._num_steps = int(state["num_steps"])
        self._started[...] = self._num_steps - state["elapsed"]
        self._next_limit = int(self._started.min()) + self._limit
        self._result.obs[...] = state["obs"]
        return self._result.obs

    def reward_terms(self) -> Mapping[str, NDArray[np.float64]]:
        """The parts of the last step's reward under the names of Gymnasium's infos (`reward_*`)."""
        return {name: np.asarray(term, np.float64) for name, term in self._terms.items()}

    def gymnasium_env(self, index: int) -> Any:
        """Gymnasium's own class in place of simulation `index`, as it was after the last reset."""
        env, _ = self._build()
        env.reset(seed=int(self._seeds[index]))
        return env

    def close(self) -> None:
        """Nothing to do: memory is freed with the object."""

    def _advance(self, physics_step: Callable[[], None]) -> None:
        self._num_steps += 1
        try:
            physics_step()
        except RuntimeError as error:
            raise EnvError(f"{self.spec.env_id}: failed in step {self._num_steps}: {describe_cause(error)}") from error
        self._task.refresh()

    def _observe(self, obs: FloatArray) -> None:
        for own, column in zip(self._widths, self._task.columns, strict=True):
            obs[:, own] = column  # the one cast to float32

    def _has_ended(self) -> bool:
        is_alive = self._task.is_alive
        return self._num_steps >= self._next_limit or (is_alive is not None and not is_alive.all())

    def _end_episodes(
        self, obs: FloatArray, terminated: BoolArray, truncated: BoolArray, final_obs: FloatArray
    ) -> None:
        """Writes the ends of a step and the first observations of what comes next; obs holds the last ones."""
        np.greater_equal(self._num_steps - self._started, self._limit, out=truncated)
        if self._task.is_alive is not None:
            np.logical_not(self._task.is_alive, out=terminated)
        ended = terminated | truncated
        final_obs[ended] = obs[ended]
        self._start_episodes(np.flatnonzero(ended).astype(np.int32))
        self._observe(obs)

    def _start_episodes(self, ids: NDArray[np.int32]) -> None:
        self._physics.restart(ids, [self._task.draw(self._generators[index]) for index in ids])
        self._started[ids] = self._num_steps
        self._next_limit = int(self._started.min()) + self._limit
        self._task.refresh()
