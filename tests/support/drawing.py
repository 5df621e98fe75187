"""Environments that draw, registered as `tests.support.drawing:Painter-v0`, and scenes in them. Torch-free."""

from __future__ import annotations

import importlib
import os
import threading

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from ddp_ppo.evaluation.drawing import Scene
from tests.support.fixtures import Echo

HEIGHT, WIDTH = 8, 12
GREY_OF_A_STEP = 5
NUM_STEPS = 30


class Painter(Echo):
    """`Echo` whose picture is grey all over: 5 for each step taken.

    `how`: "well"; or at step 2 "abort", "hang", "raise" or "assert"; or "nothing", a picture that is none.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 50}  # noqa: RUF012 - Gymnasium's own form

    def __init__(self, how: str = "well", render_mode: str | None = None) -> None:
        super().__init__()
        self.how, self.render_mode = how, render_mode

    def render(self):
        if self.how == "nothing":
            return None
        if self.t == 2:
            assert self.how != "assert"
            if self.how == "abort":
                os.abort()
            if self.how == "hang":
                threading.Event().wait()
            if self.how == "raise":
                raise ValueError("no paint-4711")
        return np.full((HEIGHT, WIDTH, 3), GREY_OF_A_STEP * self.t, np.uint8)


class Dial(Painter):
    """`Painter` with the choices 1, 2 and 3, which are also the reward."""

    def __init__(self, how: str = "well", render_mode: str | None = None) -> None:
        super().__init__(how, render_mode)
        self.action_space = Discrete(3, start=1)

    def step(self, action):
        return super().step([action])


class Camera(gymnasium.Env):
    """Observes a ball through MuJoCo's renderer: 8 x 8 x 3 bytes."""

    MODEL = "<mujoco><worldbody><light pos='0 0 3'/><geom size='0.1'/></worldbody></mujoco>"
    observation_space = Box(0, 255, (8, 8, 3), np.uint8)
    action_space = Discrete(2)

    def __init__(self) -> None:
        import mujoco

        model = mujoco.MjModel.from_xml_string(self.MODEL)
        self.data, self.renderer = mujoco.MjData(model), mujoco.Renderer(model, 8, 8)
        mujoco.mj_forward(model, self.data)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.renderer.update_scene(self.data)
        return self.renderer.render(), {}

    def step(self, action):
        self.renderer.update_scene(self.data)
        return self.renderer.render(), float(action), False, False, {}

    def close(self) -> None:
        self.renderer.close()


class Undrawn(Echo):
    """It takes a `render_mode` but has no render(); perhaps in a process that has loaded MuJoCo."""

    def __init__(self, has_mujoco: bool = False, render_mode: str | None = None) -> None:
        super().__init__()
        self.render_mode = render_mode
        if has_mujoco:
            importlib.import_module("mujoco")


class Moody(Painter):
    """`Painter` with a reward that no seed repeats."""

    def step(self, action):
        obs, _, terminated, truncated, info = super().step(action)
        return obs, float(os.getpid()), terminated, truncated, info


gymnasium.register("Painter-v0", entry_point=f"{__name__}:Painter", max_episode_steps=40)
gymnasium.register("Camera-v0", entry_point=f"{__name__}:Camera", max_episode_steps=8)
gymnasium.register("Dial-v0", entry_point=f"{__name__}:Dial", max_episode_steps=40)
gymnasium.register("Undrawn-v0", entry_point=f"{__name__}:Undrawn")
gymnasium.register("Moody-v0", entry_point=f"{__name__}:Moody")


def painted(how="well", env_id="tests.support.drawing:Painter-v0", num_steps=NUM_STEPS):
    """A scene in which action and reward of step t are t / 100."""
    act = np.arange(1, num_steps + 1, dtype=np.float32)[:, None] / 100
    env_kwargs = {} if how == "well" else {"how": how}
    return Scene({"env_id": env_id, "env_kwargs": env_kwargs}, 7, act, act[:, 0].astype(np.float64))


def cheetah(num_steps):
    """HalfCheetah that does nothing; its rewards are not known."""
    act = np.zeros((num_steps, 6), np.float32)
    return Scene({"env_id": "HalfCheetah-v5", "env_kwargs": {}}, 3, act, np.zeros(num_steps))
