"""Looks inside an environment for what a person is to be told: joints, observation columns, bodies that overlap.

Knows environments with a MuJoCo `model` and `data`, as Gymnasium's have, and the `observation_structure` of Gymnasium's
v5 tasks. Does not import MuJoCo: an environment that has a model has loaded it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from ddp_ppo.gymnasium_env import GymnasiumEnv, build_env
from ddp_ppo.protocols import BatchEnv

_OVERLAP = 0.5  # of the model's mean size; HalfCheetah's foot starts 0.28 deep in the floor, as Gymnasium has it
_STATE = {"qpos": "mjWARN_BADQPOS", "qvel": "mjWARN_BADQVEL"}


def names_of(env: BatchEnv, index: int, column: int | None, arguments: Mapping[str, Any]) -> tuple[str, str]:
    """What is behind a value of one environment that is not finite.

    Args:
        index: of the environment.
        column: of its observation; None for the reward.
        arguments: of `make_batch_env`, for a second environment of the same kind where the first ones are arrays.

    Returns:
        the position or velocity of the simulation that is not finite, such as "qpos[2] of joint rooty", and what the
        column holds; empty where there is none or nobody knows.
    """
    one = _single(env, index, arguments)
    if one is None:
        return "", ""
    name = "" if column is None else column_name(one, column, env.spec.obs_size)
    return (name, name) if name.partition("[")[0] in _STATE else (bad_state(one), name)


def first_overlap(env: BatchEnv, arguments: Mapping[str, Any], seed: int) -> str:
    """Which bodies of a MuJoCo model overlap far more than contact allows after a reset, and how far; empty if none.

    Args:
        env: has been reset.
        arguments, seed: for a second environment of the same kind where the first ones are arrays.
    """
    one = _single(env, 0, arguments)
    if one is None:
        return ""
    if not isinstance(env, GymnasiumEnv):
        one.reset(seed=seed)
    return overlap(one)


def overlap(env: Any) -> str:
    """As `first_overlap`, of one environment as it stands."""
    found = _model_and_data(env)
    if found is None or not found[1].ncon:
        return ""
    model, data = found
    deepest = int(np.argmin(data.contact.dist))
    depth = -float(data.contact.dist[deepest])
    if depth <= _OVERLAP * model.stat.meansize:
        return ""
    first, second = (model.body(model.geom_bodyid[geom]).name or "a body" for geom in data.contact.geom[deepest])
    return f"{first} and {second} overlap by {depth:.3f} m after a reset"


def _single(env: BatchEnv, index: int, arguments: Mapping[str, Any]) -> Any | None:
    """One of Gymnasium's environments, or one like it; None for a vectorised class of the user's own."""
    if isinstance(env, GymnasiumEnv):
        return env.envs[index]
    return build_env(arguments["env_id"], arguments["env_kwargs"])[0] if env.spec.backend == "mujoco" else None


def column_name(env: Any, column: int, obs_size: int) -> str:
    """What an observation column holds, such as "qvel[3] of joint bthigh" or "cfrc_ext[7]"; empty if unknown."""
    structure = getattr(env, "observation_structure", None)
    if not isinstance(structure, dict):  # of a wrapper, too: it may change the observation
        return ""
    sizes = {name: size for name, size in structure.items() if not name.startswith("skipped_")}
    if sum(sizes.values()) != obs_size:
        return ""
    for name, size in sizes.items():
        if column < size:
            index = column + structure.get(f"skipped_{name}", 0)
            return f"{name}[{index}]" + (f" of joint {_joint(env.model, name, index)}" if name in _STATE else "")
        column -= size
    return ""


def bad_state(env: Any) -> str:
    """The position or velocity of the simulation that is not finite, or was until MuJoCo reset it; empty if none.

    MuJoCo resets such a simulation in its next step and keeps a warning with the index until the next episode.
    """
    found = _model_and_data(env)
    if found is None:
        return ""
    model, data = found
    for name, warning in _STATE.items():
        bad = np.flatnonzero(~np.isfinite(getattr(data, name)))
        past = data.warning[getattr(sys.modules["mujoco"].mjtWarning, warning)]
        if len(bad) or past.number:
            index = int(bad[0]) if len(bad) else int(past.lastinfo)
            return f"{name}[{index}] of joint {_joint(model, name, index)}"
    return ""


def _model_and_data(env: Any) -> tuple[Any, Any] | None:
    """MuJoCo's own, of whatever environment keeps them under these names."""
    model, data = (getattr(env.unwrapped, name, None) for name in ("model", "data"))
    mujoco = sys.modules.get("mujoco")
    is_mujoco = mujoco is not None and isinstance(model, mujoco.MjModel) and isinstance(data, mujoco.MjData)
    return (model, data) if is_mujoco else None


def _joint(model: Any, field: str, index: int) -> str:
    """The joint of an entry of qpos or qvel: its name, or its number where it has none."""
    last = np.searchsorted(model.jnt_qposadr if field == "qpos" else model.jnt_dofadr, index, side="right") - 1
    return model.joint(int(last)).name or str(last)
