"""One simulation of a task as it stands, in the form in which `envs.inspection` looks at an environment."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium
import mujoco
import numpy as np
from gymnasium.spaces import Box


class Snapshot(gymnasium.Env[Any, Any]):
    """What is known of one environment, which cannot be stepped: model, a copy of its data, columns and times."""

    def __init__(
        self, *, model: mujoco.MjModel, data: mujoco.MjData, metadata: dict[str, Any], dt: float, frame_skip: int
    ) -> None:
        self.model, self.data, self.dt, self.frame_skip = model, data, dt, frame_skip
        self.metadata = metadata
        self.observation_space = Box(-np.inf, np.inf, (len(metadata["obs_columns"]),), np.float32)
        self.spec: Any = SimpleNamespace(entry_point="")  # of an environment which Gymnasium does not have
