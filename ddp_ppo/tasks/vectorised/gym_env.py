"""A vectorised task as an ordinary Gymnasium environment: one simulation, the same numbers, and pictures.

Register it with the task's class as an argument, as `tasks.robots.quadruped` does at its end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import mujoco
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from ddp_ppo.protocols import FloatArray, PlainState
from ddp_ppo.tasks.vectorised.task import MujocoTask

_CAMERA = "track"  # of the model, if it has one
_WIDTH, _HEIGHT = 480, 320


class TaskEnv(gymnasium.Env[FloatArray, FloatArray]):
    """One environment of a task. Infos hold the reward's terms as `reward_<name>`, and `end` if the task ended it."""

    def __init__(self, task: Callable[..., MujocoTask], render_mode: str | None = None, **kwargs: Any) -> None:
        """Builds the task's class, given as `task`, with these arguments."""
        self.task, self.render_mode = task(1, **kwargs), render_mode
        spec = self.task.spec
        self.observation_space = Box(-np.inf, np.inf, (spec.obs_size,), np.float32)
        self.action_space = Box(np.array(spec.action_low, np.float32), np.array(spec.action_high, np.float32))
        self.metadata = {
            **self.task.metadata,
            "render_modes": ["rgb_array"],
            "render_fps": round(1.0 / self.task.step_seconds),
        }
        self.dt, self.frame_skip = self.task.step_seconds, self.task.design.physics_steps
        self.model = self.task.drawn_model()
        self._has_begun = False  # whether the stream has a seed
        self._is_at_start = False  # the task has begun the next episode by itself
        self._obs = np.zeros((1, spec.obs_size), np.float32)  # the task's own, once it has been reset
        self._renderer: mujoco.Renderer | None = None

    def set_progress(self, fraction: float) -> None:
        """See `MujocoTask.set_progress`."""
        self.task.set_progress(fraction)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[FloatArray, dict[str, Any]]:
        """Starts an episode; without a seed the stream of the last seed goes on."""
        super().reset(seed=seed)
        if seed is not None or not self._has_begun:
            self._has_begun = True
            start = int(self.np_random.integers(2**31)) if seed is None else seed
            self._obs = self.task.reset([start])
        elif not self._is_at_start:
            self.task.restart(np.zeros(1, np.int32))
        self._is_at_start = False
        return self._obs[0].copy(), {}

    def step(self, action: NDArray[Any]) -> tuple[FloatArray, float, bool, bool, dict[str, Any]]:
        """One control step."""
        result = self.task.step(np.asarray(action, np.float32)[None])
        terminated, truncated = bool(result.terminated[0]), bool(result.truncated[0])
        self._is_at_start = terminated or truncated
        obs = result.final_obs if self._is_at_start else result.obs
        infos: dict[str, Any] = {f"reward_{name}": float(x[0]) for name, x in self.task.reward_terms().items()}
        reasons = [name for name, flags in self.task.end_reasons().items() if flags[0]]
        if reasons:
            infos["end"] = reasons[0]
        return obs[0].copy(), float(result.reward[0]), terminated, truncated, infos

    def render(self) -> Any:
        """A picture, uint8 [height, width, 3]; None without a render mode."""
        if self.render_mode is None:
            return None
        if self._renderer is None:
            self._renderer = mujoco.Renderer(self.model, _HEIGHT, _WIDTH)
        self._renderer.update_scene(self.data, self._camera())
        return self._renderer.render()

    @property
    def data(self) -> mujoco.MjData:
        """A copy of the simulation as it stands."""
        return self.task.sim.snapshot(0, self.model)

    def get_state(self) -> PlainState:
        """The exact state."""
        return {"task": self.task.save(), "has_begun": self._has_begun, "is_at_start": self._is_at_start}

    def set_state(self, state: PlainState) -> None:
        """Continues from what `get_state` returned."""
        self._obs = self.task.restore(state["task"])
        self._has_begun, self._is_at_start = state["has_begun"], state["is_at_start"]

    def close(self) -> None:
        """Frees the renderer."""
        if self._renderer is not None:
            self._renderer.close()

    def _camera(self) -> Any:
        names = [self.model.camera(index).name for index in range(self.model.ncam)]
        if _CAMERA in names:
            return _CAMERA
        camera = mujoco.MjvCamera()
        camera.type, camera.trackbodyid = mujoco.mjtCamera.mjCAMERA_TRACKING, 1
        camera.distance, camera.azimuth, camera.elevation = 2.0, 120.0, -20.0
        return camera
