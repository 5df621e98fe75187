"""What is found out about an environment before anything is started, on one that is closed again.

Whether its state can be saved is tried, as the names of methods say nothing: `get_state` may return an observation, and
every MujocoEnv has a `set_state` that takes positions and velocities. A state is saved, and what follows is compared
with what follows after it has been restored in another episode.

Shapes: T steps, K environments.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from ddp_ppo.envs.inner import gymnasium_env, innermost
from ddp_ppo.envs.spaces import NUMBERS
from ddp_ppo.envs.state import require_plain
from ddp_ppo.errors import FAULTS, describe_cause
from ddp_ppo.maths.seeding import kept_global_generators, seed_global_generators
from ddp_ppo.processes.lifetime import time_limit
from ddp_ppo.protocols import BatchEnv, EnvSpec, PlainState

_STEPS = 5
_SECONDS = 5.0
_CONSEQUENCE = "its state is not saved; episodes start again after a resume and where an actor is lost"


def probed_spec(env: BatchEnv, seconds: float) -> EnvSpec:
    """The environment's description with what was found out about it; its episodes are over then.

    Args:
        seconds: longest that trying may take, 0 is a few; one that is slower is trusted, or hangs in an actor too.
    """
    fault = ""
    with kept_global_generators(), suppress(_TooSlow), time_limit(min(seconds or _SECONDS, _SECONDS), _TooSlow()):
        fault = _state_fault(env)
    unsaved = f"{env.spec.env_id}: {fault}: {_CONSEQUENCE}" if fault else ""
    return replace(env.spec, unsaved=unsaved, notes=tuple(running_normalizers(env)))


class _TooSlow(BaseException):
    """The time is up; not for an environment to handle."""


def _state_fault(env: BatchEnv) -> str:
    """Why a saved state does not bring the environment back; empty if it does, or if there is no way to save it.

    An environment that fails without that is for the actors to report.
    """
    with suppress(*FAULTS):
        if env.save() is None:  # asked before the first reset: an environment that cannot be saved is not stepped
            return ""
    try:
        actions = env.spec.action.random(np.random.default_rng(0), 3 * _STEPS, env.num_envs)
        env.reset(range(1, env.num_envs + 1))
        _path(env, actions[:_STEPS])
    except FAULTS:
        return ""
    try:
        state = env.save()
        require_plain(state, "save()")
        return "" if state is None else _difference(env, state, actions[_STEPS:])
    except FAULTS as error:
        return describe_cause(error)


def _difference(env: BatchEnv, state: PlainState, actions: NDArray[Any]) -> str:
    """Whether what follows in another episode, once it is set to the state, differs from what follows now."""
    expected = _path(env, actions[:_STEPS])
    env.reset(range(101, env.num_envs + 101))
    _path(env, actions[_STEPS:])
    env.restore(state)
    found = _path(env, actions[:_STEPS])
    is_same = all(np.array_equal(a, b, equal_nan=True) for a, b in zip(expected, found, strict=True))
    return "" if is_same else "what it saves does not bring it back, a step after it has been restored differs"


def _path(env: BatchEnv, actions: NDArray[Any]) -> Sequence[NDArray[np.float64]]:
    """Observations, rewards and ends [T, K, ...] that follow these actions [T, K, ...]."""
    seed_global_generators(0)
    steps = []
    for action in actions:
        result = env.step(action)
        steps.append((result.obs.copy(), result.reward.copy(), result.terminated.copy(), result.truncated.copy()))
    return [np.array(values, np.float64) for values in zip(*steps, strict=True)]


def running_normalizers(env: BatchEnv) -> list[str]:
    """What is to be said of running normalisers inside the first environment, one line each."""
    inner, index = innermost(env, 0)
    one = gymnasium_env(inner, index)
    return normalizers_among(inner if one is None else one)


def normalizers_among(env: Any) -> list[str]:
    """The same of one environment with its wrappers, or of a vectorised class."""
    found = []
    while env is not None:
        is_running = getattr(env, "update_running_mean", True) is not False  # of Gymnasium's wrappers
        shapes = {np.shape(value.mean) for value in vars(env).values() if is_running and _is_statistic(value)}
        for shape in sorted(shapes, key=len):
            setting = "normalize_obs" if shape else "normalize_reward"
            found.append(
                f"{type(env).__name__} keeps running statistics in each environment, which neither models nor "
                f"evaluations have: the policy would act on other numbers there; remove it, {setting}: true does it"
            )
        env = env.env if isinstance(env, gymnasium.Wrapper) else None
    return found


def _is_statistic(value: Any) -> bool:
    """Whether it holds running moments, as Gymnasium's and other packages' RunningMeanStd do."""
    moments = [getattr(value, name, None) for name in ("mean", "var", "count")]
    return all(isinstance(one, (*NUMBERS, np.ndarray)) for one in moments)
