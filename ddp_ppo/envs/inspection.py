"""Looks inside an environment for what a person is to be told: what is not finite or outside its space, overlaps.

Knows environments with a MuJoCo `model` and `data`, as Gymnasium's have; names are those of columns.py. Imports MuJoCo
only for an environment that has loaded it.
"""

from __future__ import annotations

import re
import sys
from typing import Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from ddp_ppo.envs.columns import known_interface
from ddp_ppo.envs.gymnasium_env import GymnasiumEnv
from ddp_ppo.envs.inner import gymnasium_env, innermost
from ddp_ppo.protocols import BatchEnv, Column, FloatArray

_FAR = 0.1  # of a column's range that a value may be outside of it
_OVERLAP = 0.5  # of the model's mean size; HalfCheetah's foot starts 0.28 deep in the floor, as Gymnasium has it
_STATE = {"qpos": "mjWARN_BADQPOS", "qvel": "mjWARN_BADQVEL"}
_STATE_ENTRY = re.compile(r"\b(qpos|qvel)\[(\d+)\]")


def names_of(env: BatchEnv, index: int, column: int | None) -> tuple[str, str]:
    """What is behind a value of one environment that is not finite.

    Args:
        index: of the environment.
        column: of its observation; None for the reward.

    Returns:
        the position or velocity of the simulation that is not finite, such as "qpos[2] (rooty.angle)", and what the
        column holds; empty where there is none or nobody knows.
    """
    env, index = innermost(env, index)
    one = gymnasium_env(env, index)
    if one is None:
        return "", ""
    known = known_interface(one).obs
    if column is None or len(known) != env.spec.obs_size:
        return bad_state(one), ""
    source = _STATE_ENTRY.search(known[column].source)
    found = model_and_data(one)
    if source is None or found is None:
        return bad_state(one), _words(known[column])
    return _state_name(found[0], source[1], int(source[2])), _words(known[column])


def first_overlap(env: BatchEnv) -> str:
    """Which bodies of a MuJoCo model overlap far more than contact allows after a reset, and how far; empty if none.

    Args:
        env: has just been reset; its first environment is looked at.
    """
    one = gymnasium_env(*innermost(env, 0))
    return "" if one is None else overlap(one)


def overlap(env: Any) -> str:
    """As `first_overlap`, of one environment as it stands."""
    found = model_and_data(env)
    if found is None or not found[1].ncon:
        return ""
    model, data = found
    deepest = int(np.argmin(data.contact.dist))
    depth = -float(data.contact.dist[deepest])
    if depth <= _OVERLAP * model.stat.meansize:
        return ""
    first, second = (model.body(model.geom_bodyid[geom]).name or "a body" for geom in data.contact.geom[deepest])
    return f"{first} and {second} overlap by {depth:.3f} m after a reset"


class ObsLimits(NamedTuple):
    """What the spaces of K environments say of their observations, and how far beyond that is far, [K, D] each."""

    low: FloatArray
    high: FloatArray
    margin: FloatArray

    @staticmethod
    def of(env: BatchEnv) -> ObsLimits | None:
        """The limits of Gymnasium's environments; None where nothing limits a column."""
        spaces = [_space_of(*innermost(env, index)) for index in range(env.num_envs)]
        if not all(isinstance(space, Box) for space in spaces):
            return None
        low, high = (np.stack([getattr(space, name).ravel() for space in spaces]) for name in ("low", "high"))
        if not (np.isfinite(low) | np.isfinite(high)).any():
            return None
        with np.errstate(invalid="ignore"):
            size = np.where(np.isfinite(high - low), high - low, np.maximum(1.0, np.fmin(abs(low), abs(high))))
        return ObsLimits(low, high, _FAR * size)

    def first_outside(self, obs: NDArray[Any]) -> str:
        """The first observation of a rollout [T, K, D] that is far outside its space, in words; empty if none is."""
        is_far = (obs < self.low - self.margin) | (obs > self.high + self.margin)
        if not is_far.any():
            return ""
        step, env, column = np.argwhere(is_far)[0].tolist()
        limits = f"{self.low[env, column]:g} .. {self.high[env, column]:g}"
        return f"column {column} of an observation is {obs[step, env, column]:g}, its space says {limits}"


def _space_of(env: BatchEnv, index: int) -> Any:
    """The space of an environment that is one of Gymnasium's own instances; arrays of MuJoCo have no limits."""
    return env.gymnasium_env(index).observation_space if isinstance(env, GymnasiumEnv) else None


def bad_state(env: Any) -> str:
    """The position or velocity of the simulation that is not finite, or was until MuJoCo reset it; empty if none.

    MuJoCo resets such a simulation in its next step and keeps a warning with the index until the next episode.
    """
    found = model_and_data(env)
    if found is None:
        return ""
    model, data = found
    for name, warning in _STATE.items():
        bad = np.flatnonzero(~np.isfinite(getattr(data, name)))
        past = data.warning[getattr(sys.modules["mujoco"].mjtWarning, warning)]
        if len(bad) or past.number:
            index = int(bad[0]) if len(bad) else int(past.lastinfo)
            return _state_name(model, name, index)
    return ""


def model_and_data(env: Any) -> tuple[Any, Any] | None:
    """MuJoCo's own, of whatever environment keeps them under these names."""
    model, data = (getattr(env.unwrapped, name, None) for name in ("model", "data"))
    mujoco = sys.modules.get("mujoco")
    is_mujoco = mujoco is not None and isinstance(model, mujoco.MjModel) and isinstance(data, mujoco.MjData)
    return (model, data) if is_mujoco else None


def _state_name(model: Any, field: str, index: int) -> str:
    from ddp_ppo.envs.mujoco.columns import state_columns

    return _words(state_columns(model, field)[index])


def _words(column: Column) -> str:
    return f"{column.source} ({column.name})" if column.source else column.name
