"""The Gymnasium backend: K environments in one lean loop, each reset in the step in which its episode ends.

Not gymnasium.vector: no copies of infos, no inserted transition. Time limits are kept here, so that one setting can
shorten or lengthen them. Whether observations and rewards are finite is for the trainer to check, once per rollout.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import load_env_creator
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from numpy.typing import NDArray

from ddp_ppo.envs.graphics import explained
from ddp_ppo.envs.instance import ALONE, Instances
from ddp_ppo.envs.mujoco.profiler_clock import prepare_mujoco
from ddp_ppo.envs.registered import find_registered, require_wrapper_specs
from ddp_ppo.envs.same import require_alike
from ddp_ppo.envs.spaces import (
    NUMBERS,
    action_decoder,
    action_fields,
    as_reward,
    observation_fields,
    observation_writer,
    shape_fields,
)
from ddp_ppo.envs.state import restore_env, save_env, state_access
from ddp_ppo.errors import FAULTS, EnvError, blamed, describe_cause
from ddp_ppo.protocols import EnvSpec, FloatArray, PlainState, Step

_Env = gymnasium.Env[Any, Any]


class GymnasiumEnv:
    """`BatchEnv` over K environments made by `gymnasium.make`."""

    def __init__(
        self,
        env_id: str,
        num_envs: int,
        *,
        env_kwargs: Mapping[str, Any] | None = None,
        max_episode_steps: int | None = None,
        remove_profiler_clock: bool = True,
        numbers: Sequence[int] | None = None,
        instances: Instances = ALONE,
    ) -> None:
        """Builds the environments. Raises EnvError.

        Args:
            max_episode_steps: replaces the registered limit.
            numbers: what messages call the environments; 0 .. K-1 unless given.
            instances: how they are told apart while they are built.
        """
        self._envs: list[_Env] = []
        self._numbers = range(num_envs) if numbers is None else numbers
        first: tuple[_Env, int | None] | None = None
        try:
            for number in self._numbers:
                with instances.building(number):
                    built = _build_env(env_id, env_kwargs or {}, max_episode_steps, remove_profiler_clock)
                self._envs.append(built[0])
                first = first or built
                require_alike(built, first, f"{env_id}: environment {number}", f"environment {self._numbers[0]}")
            env, limit = built
            try:
                obs_size, self._write_obs = observation_writer(env.observation_space)
                fields = action_fields(env.action_space) | observation_fields(env.observation_space)
                fields |= shape_fields(env.observation_space)
            except EnvError as error:
                raise EnvError(f"{env_id}: {error}") from error
        except EnvError:
            with suppress(EnvError):
                self.close()
            raise
        self.spec = EnvSpec(env_id=env_id, obs_size=obs_size, max_episode_steps=limit, backend="gymnasium", **fields)
        self.num_envs = num_envs
        self._decode = action_decoder(env.action_space)
        self._limit = limit or sys.maxsize
        self._elapsed = [0] * num_envs  # steps of the current episode
        self._num_steps = 0  # since reset(), for error messages
        self._infos: list[Any] = [{}] * num_envs
        self._result = Step.allocate(num_envs, obs_size)

    def reset(self, seeds: Sequence[int]) -> FloatArray:
        """Starts new episodes, environment i seeded with seeds[i]; later resets go on from that seed's stream."""
        self._elapsed = [0] * self.num_envs
        self._num_steps = 0
        index = 0
        try:
            for index, env in enumerate(self._envs):
                obs, _ = env.reset(seed=int(seeds[index]))
                self._write_obs(obs, self._result.obs[index])
        except FAULTS as error:
            with explained():  # the first picture is often drawn here
                raise EnvError(
                    f"environment {self._numbers[index]} failed in reset: {describe_cause(error)}"
                ) from error
        return self._result.obs

    def step(self, action: NDArray[Any]) -> Step:
        """Steps every environment once; raises EnvError with the environment's index and step where one fails."""
        actions = self._decode(action)
        all_obs, rewards, all_terminated, all_truncated, all_final_obs = result = self._result
        elapsed, limit, write_obs = self._elapsed, self._limit, self._write_obs
        self._num_steps += 1
        index = 0
        try:
            for index, env in enumerate(self._envs):
                elapsed[index] += 1
                obs, reward, terminated, truncated, self._infos[index] = env.step(actions[index])
                truncated = bool(truncated) or elapsed[index] >= limit
                rewards[index] = as_reward(reward)
                all_terminated[index] = terminated
                all_truncated[index] = truncated
                if terminated or truncated:
                    write_obs(obs, all_final_obs[index])
                    obs, _ = env.reset()
                    elapsed[index] = 0
                write_obs(obs, all_obs[index])
        except FAULTS as error:
            where = f"environment {self._numbers[index]} failed in step {self._num_steps}"
            raise EnvError(f"{where} (step {elapsed[index]} of its episode): {describe_cause(error)}") from error
        return result

    def save(self) -> PlainState | None:
        """The exact state of all environments, or None where an environment has no way to give it."""
        access = state_access(self._envs[0])
        if access is None:
            return None
        states = []
        for number, env in zip(self._numbers, self._envs, strict=True):
            with blamed(f"environment {number} cannot be saved"):
                states.append(save_env(access, env))
        return {
            "envs": states,
            "elapsed": np.array(self._elapsed),
            "num_steps": self._num_steps,
            "obs": self._result.obs.copy(),
        }

    def restore(self, state: PlainState) -> FloatArray:
        """Continues from what `save` of the same kind and number of environments returned."""
        access = state_access(self._envs[0])
        if access is None or len(state.get("envs", ())) != self.num_envs:
            raise EnvError(
                f"{self.spec.env_id}: the saved state does not fit {self.num_envs} environments of this kind"
            )
        for number, env, env_state in zip(self._numbers, self._envs, state["envs"], strict=True):
            with blamed(f"environment {number} cannot be restored"):
                restore_env(access, env, env_state)
        self._elapsed = [int(steps) for steps in state["elapsed"]]
        self._num_steps = int(state["num_steps"])
        self._result.obs[:] = state["obs"]
        return self._result.obs

    def reward_terms(self) -> Mapping[str, NDArray[np.float64]]:
        """The numbers that the last step's infos hold under keys `reward_*`; 0 where an environment gave none."""
        terms: dict[str, NDArray[np.float64]] = {}
        for index, info in enumerate(self._infos):
            if type(info) is not dict and not isinstance(info, Mapping):  # the first question is the quicker one
                number, kind = self._numbers[index], type(info).__name__
                raise EnvError(f"environment {number}: the info of a step must be a dict, not {kind}")
            for key, value in info.items():
                if type(key) is str and key.startswith("reward_") and _is_number(value):
                    if key not in terms:
                        terms[key] = np.zeros(self.num_envs)
                    terms[key][index] = value
        return terms

    def gymnasium_env(self, index: int) -> _Env:
        """Environment `index` itself, to be looked at when something has gone wrong."""
        return self._envs[index]

    def close(self) -> None:
        """Closes every environment; raises EnvError where one fails."""
        for number, env in zip(self._numbers, self._envs, strict=False):
            with blamed(f"environment {number} failed in close"):
                env.close()


def build_env(
    env_id: str,
    env_kwargs: Mapping[str, Any],
    max_episode_steps: int | None = None,
    remove_profiler_clock: bool = True,
) -> tuple[_Env, int | None]:
    """Builds one environment without the wrappers that this package replaces; returns it and its time limit.

    Raises:
        EnvError: unknown id (with what to do), or whatever the constructor complains about.
    """
    with ALONE.building(0):
        return _build_env(env_id, env_kwargs, max_episode_steps, remove_profiler_clock)


def _build_env(
    env_id: str, env_kwargs: Mapping[str, Any], max_episode_steps: int | None, remove_profiler_clock: bool
) -> tuple[_Env, int | None]:
    registered = find_registered(env_id)
    require_wrapper_specs(registered)
    with explained(), blamed(f"{env_id}: cannot build the environment"):
        if isinstance(registered.entry_point, str):
            load_env_creator(registered.entry_point)  # so that MuJoCo, if it is wanted, is there to be prepared
        prepare_mujoco(clock=not remove_profiler_clock)
        given = replace(registered, kwargs={**registered.kwargs, **env_kwargs})  # names that make() has too included
        env = gymnasium.make(given, max_episode_steps=-1, disable_env_checker=True)
    limit = min(registered.max_episode_steps or sys.maxsize, _smallest_limit(env))
    while isinstance(env, (OrderEnforcing, PassiveEnvChecker, TimeLimit)):
        env = env.env
    if max_episode_steps is not None:
        limit = max_episode_steps
        if limit > _smallest_limit(env):
            env.close()
            raise EnvError(
                f"{env_id}: max_episode_steps {limit} is above a TimeLimit inside the environment's wrappers"
            )
    return env, limit if limit < sys.maxsize else None


def _is_number(value: Any) -> bool:
    """Whether it is one number that a float can hold."""
    if isinstance(value, np.ndarray):
        return value.shape == () and value.dtype.kind in "biuf"
    return isinstance(value, NUMBERS) and not (isinstance(value, int) and abs(value) > sys.float_info.max)


def _smallest_limit(env: _Env) -> int:
    limit = sys.maxsize
    while isinstance(env, gymnasium.Wrapper):
        limit = min(limit, env._max_episode_steps) if isinstance(env, TimeLimit) else limit
        env = env.env
    return limit
