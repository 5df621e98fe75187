"""One simulation of a task as it stands, in the form in which `envs.inspection` looks at an environment."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import mujoco


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """What is known of one environment: its model and a copy of its data, the columns, the times."""

    model: mujoco.MjModel
    data: mujoco.MjData
    metadata: dict[str, Any]
    dt: float
    frame_skip: int

    @property
    def spec(self) -> Any:
        """That of an environment which Gymnasium does not have."""
        return SimpleNamespace(entry_point="")

    @property
    def unwrapped(self) -> Snapshot:
        """Itself."""
        return self
