"""Gymnasium's MuJoCo tasks that run as arrays over K simulations: the table that lists them, and how one is bound.

Models, default arguments and time limits are read from the installed Gymnasium. The tasks themselves are in v5.
Nothing here steps anything: see env and physics.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import gymnasium

from ddp_ppo.envs.mujoco.parts import Setup
from ddp_ppo.envs.mujoco.physics import BatchPhysics, LoopPhysics, Physics
from ddp_ppo.envs.mujoco.v5 import ROWS, Task

TASKS = {f"gymnasium.envs.mujoco.{entry_point}": row for entry_point, row in ROWS.items()}


def covers(env_id: str, env_kwargs: Mapping[str, Any]) -> str | None:
    """Returns None where these tasks include a registered environment with its arguments, else the reason why not."""
    registered = gymnasium.registry[env_id]
    if registered.entry_point not in TASKS:
        return "only Gymnasium's MuJoCo tasks of version 5 run as arrays"
    if registered.additional_wrappers:
        return "it is registered with additional wrappers"
    known = inspect.signature(gymnasium.envs.registration.load_env_creator(str(registered.entry_point))).parameters
    foreign = sorted({*registered.kwargs, *env_kwargs} - ({*known} - {"default_camera_config", "kwargs"}))
    return f"the argument {foreign[0]!r} is not of the task but of its rendering, or unknown" if foreign else None


def setup_of(env: Any) -> Setup:
    """The task that `env` is, an environment of Gymnasium's own class without wrappers, with every argument."""
    signature = inspect.signature(type(env)).bind(**env.spec.kwargs)
    signature.apply_defaults()
    return Setup(env.model, env.dt, env.init_qpos.copy(), env.init_qvel.copy(), signature.arguments)


def bind_task(env: Any, num_envs: int) -> tuple[Task, Physics]:
    """Builds K simulations of the task that `env` is, as for `setup_of`."""
    task = TASKS[env.spec.entry_point]
    # a custom model file may use what Batch does not run, such as sleeping bodies
    needs_loop = task.has_contact_forces or "xml_file" in env.spec.kwargs
    physics = (LoopPhysics if needs_loop else BatchPhysics)(env.model, num_envs, env.frame_skip)
    return task.build(setup_of(env), physics), physics
