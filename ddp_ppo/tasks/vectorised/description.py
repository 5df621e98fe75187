"""What a design looks like from outside: its `EnvSpec`, and where and what the columns of its observation are.

Shapes: D observation size, A action size.
"""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

from ddp_ppo.protocols import EnvSpec, FloatArray
from ddp_ppo.tasks.vectorised.design import Design


def describe(design: Design, model: mujoco.MjModel, env_id: str) -> EnvSpec:
    """The environment's description; actions are within [-1, 1]."""
    step_seconds = float(model.opt.timestep) * design.physics_steps
    return EnvSpec(
        env_id=env_id,
        obs_size=sum(len(group.columns) for group in design.obs),
        action_kind="box",
        action_size=model.nu,
        action_low=(-1.0,) * model.nu,
        action_high=(1.0,) * model.nu,
        max_episode_steps=round(design.episode_seconds / step_seconds),
        backend="vectorised",
        obs_parts=tuple((group.name, "vector", (len(group.columns),), 1.0) for group in design.obs),
    )


def column_slices(design: Design) -> list[slice]:
    """The columns of each group."""
    widths = [len(group.columns) for group in design.obs]
    ends = np.cumsum(widths).tolist()
    return [slice(end - width, end) for end, width in zip(ends, widths, strict=True)]


def column_noise(design: Design) -> FloatArray:
    """Half the width of each column's noise, [D]."""
    return np.concatenate([np.full(len(group.columns), group.noise, np.float32) for group in design.obs])


def noisy_columns(noise: FloatArray) -> slice:
    """From the first noisy column to the last one; slice(0, 0) if there is none."""
    noisy = np.flatnonzero(noise)
    return slice(int(noisy[0]), int(noisy[-1]) + 1) if len(noisy) else slice(0, 0)


def column_names(design: Design, model: mujoco.MjModel) -> dict[str, Any]:
    """Names and units of the columns of observations and actions, as `envs.columns` reads them from metadata."""
    obs = [(f"{one.name}.{column}", one.unit, "", one.frame) for one in design.obs for column in one.columns]
    scale = np.broadcast_to(np.array(design.action_scale or 1.0), model.nu)
    names = [model.actuator(index).name for index in range(model.nu)]
    action = [
        (name, f"{scale[index]:g} {design.action_unit}".strip(), f"ctrl[{index}]") for index, name in enumerate(names)
    ]
    return {"obs_columns": obs, "action_columns": action}
