"""Environments as users bring them: `tests.support.brought:Robot-v0` and so on.

Those with a folder write down what they find: `folder/notes` holds a line of JSON for each instance that was built.
Others are registered and wrapped in odd ways. Torch-free.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import time
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium.envs.registration import WrapperSpec
from gymnasium.spaces import Box, Dict, Discrete

from tests.support.planted_faults import Point

VARIABLES = ("DDP_PPO_ENV_INDEX", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTHONHASHSEED")


def notes(folder) -> list[dict[str, object]]:
    """What the instances have written, in their order."""
    return [json.loads(line) for line in (Path(folder) / "notes").read_text().splitlines()]


class Drawn(gymnasium.Env):
    """Draws its start and its steps from NumPy's global generator, which its constructor seeds if it is told to.

    Observations are [x, goal]; the goal is drawn by the constructor.
    """

    observation_space = Box(-np.inf, np.inf, (2,), np.float32)
    action_space = Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, folder=None, seed=None) -> None:
        if seed is not None:
            np.random.seed(seed)
        self.goal = float(np.random.uniform(-1, 1))
        self.folder = folder
        if folder is not None:
            self.note({name: os.environ.get(name) for name in VARIABLES} | {"pid": os.getpid(), "goal": self.goal})

    def note(self, what) -> None:
        """Adds a line."""
        with (Path(self.folder) / "notes").open("a") as file:
            file.write(json.dumps(what) + "\n")

    def observe(self):
        """The observation."""
        return np.array([self.x, self.goal], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = float(np.random.uniform(-1, 1))
        return self.observe(), {}

    def step(self, action):
        self.x = float(np.clip(self.x + 0.1 * action[0] + 0.1 * np.random.uniform(-1, 1), -1, 1))
        return self.observe(), -abs(self.x), False, False, {}


class Robot(Drawn):
    """The only one of its folder, with a simulator in processes of its own, which its close() leaves behind.

    `how` it closes: "raise" or "hang". `keeps_state`: whether its state can be saved.
    """

    def __init__(self, folder, how="raise") -> None:
        self.file, self.how = Path(folder) / "in_use", how
        self.file.touch(exist_ok=False)
        super().__init__(folder, seed=0)
        self.child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(1000,))
        self.child.start()
        self.simulator = subprocess.Popen(["sleep", "1000"], start_new_session=True)

    def close(self) -> None:
        self.file.unlink()
        if multiprocessing.parent_process() is None:  # the description's, which would go on beside the training
            self.child.kill()
            self.simulator.kill()
            self.simulator.wait()
        if self.how == "hang":
            time.sleep(1000)
        raise RuntimeError("the cable is stuck")


class OnlyOne(Point):
    """A task without a fault, of which there is one in its folder."""

    def __init__(self, folder) -> None:
        self.file = Path(folder) / "in_use"
        self.file.touch(exist_ok=False)
        super().__init__()

    def close(self) -> None:
        self.file.unlink()


class Stopped(gymnasium.Env):
    """Has a breakpoint in step."""

    observation_space = Box(-1.0, 1.0, (1,), np.float32)
    action_space = Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        breakpoint()
        return np.zeros(1, np.float32), 0.0, False, False, {}


gymnasium.register("Stopped-v0", Stopped, max_episode_steps=20)
gymnasium.register("OnlyOne-v0", OnlyOne, max_episode_steps=40)
gymnasium.register("Drawn-v0", Drawn, max_episode_steps=20)
gymnasium.register("Robot-v0", Robot, max_episode_steps=20)


class Timed(gymnasium.Env):
    """Keeps its own time limit, an argument that Gymnasium's make() also has."""

    observation_space = Box(-1.0, 1.0, (1,), np.float32)
    action_space = Discrete(2)

    def __init__(self, max_episode_steps=100):
        self.limit, self.time = max_episode_steps, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.time += 1
        return np.zeros(1, np.float32), 1.0, False, self.time >= self.limit, {}


class Goal(gymnasium.Env):
    """Observes a Dict of two numbers."""

    action_space = Discrete(2)
    observation_space = Dict({"goal": Box(-1, 1, (1,), np.float32), "place": Box(-1, 1, (1,), np.float32)})

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return {"goal": np.ones(1, np.float32), "place": np.zeros(1, np.float32)}, {}

    def step(self, action):
        return {"goal": np.ones(1, np.float32), "place": np.zeros(1, np.float32)}, 0.0, False, False, {}


class OwnFlatten(gymnasium.ObservationWrapper):
    """Flattens an observation, and does not record its arguments as Gymnasium's wrappers do."""

    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gymnasium.spaces.flatten_space(env.observation_space)

    def observation(self, observation):
        return gymnasium.spaces.flatten(self.env.observation_space, observation)


class Line(gymnasium.Env):
    """A mass on a line, in a wind that is another one in every episode."""

    observation_space = Box(-np.inf, np.inf, (2,), np.float32)
    action_space = Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.v, self.wind = self.np_random.uniform(-1, 1), 0.0, self.np_random.uniform(-0.5, 0.5)
        return self._obs(), {}

    def step(self, action):
        self.v = float(np.clip(self.v + 0.1 * (action[0] + self.wind), -1, 1))
        self.x += 0.1 * self.v
        return self._obs(), -abs(self.x), False, False, {}

    def _obs(self):
        return np.array([self.x, self.v], np.float32)


class Saved(Line):
    """Can be saved."""

    def get_state(self):
        return {"mass": (self.x, self.v), "wind": self.wind}

    def set_state(self, state):
        (self.x, self.v), self.wind = state["mass"], state["wind"]


class Windless(Saved):
    """Restores all but the wind."""

    def set_state(self, state):
        self.x, self.v = state["mass"]


class Asked(Line):
    """Its get_state wants a name, and the other names mean something else too."""

    metadata = {"render_modes": [], "obs_columns": ["place", ("velocity", "m/s")]}  # noqa: RUF012
    frame_skip = "none"
    model, data = "a neural network", [1, 2, 3]

    def get_state(self, name):
        return getattr(self, name)

    def set_state(self, name, value):
        setattr(self, name, value)

    def dt(self):
        raise RuntimeError("nobody asked for it")

    def reward_terms(self):
        raise RuntimeError("nobody asked for it")

    def run_steps(self, num_steps):
        raise RuntimeError("nobody asked for it")


class Observing(Line):
    """Its get_state gives the observation, and restoring that raises."""

    def get_state(self):
        return self._obs()

    def set_state(self, qpos, qvel):
        self.x, self.v = qpos, qvel


class OwnNormalizer(gymnasium.Wrapper):
    """A normaliser of rewards as people write them."""

    def __init__(self, env):
        super().__init__(env)
        self.statistics = gymnasium.wrappers.utils.RunningMeanStd(shape=())


class Subclassed(gymnasium.wrappers.NormalizeObservation):
    """Of Gymnasium's, under another name."""


class Camera(gymnasium.Env):
    """Pictures of 6 x 6 pixels in one colour of five, which is to be named; episodes of 5 steps."""

    action_space = Discrete(5)

    def __init__(self, dtype="uint8", shape=(6, 6, 3)):
        self.observation_space = Box(0, 255, tuple(shape), np.dtype(dtype).type)
        self.level = self.time = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._obs(), {}

    def step(self, action):
        self.time += 1
        reward = float(action == self.level)
        return self._obs(), reward, False, self.time == 5, {}

    def _obs(self):
        self.level = int(self.np_random.integers(5))
        space = self.observation_space
        return (50 * self.level + self.np_random.integers(0, 9, space.shape)).astype(space.dtype)


class Wide(gymnasium.Env):
    """A thousand numbers, whose first sign is what to choose."""

    observation_space = Box(-1.0, 1.0, (1000,), np.float32)
    action_space = Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._obs(), {}

    def step(self, action):
        return self._obs(), float((self.obs[0] > 0) == bool(action)), False, False, {}

    def _obs(self):
        self.obs = self.np_random.uniform(-1.0, 1.0, 1000).astype(np.float32)
        return self.obs


class Numbers(gymnasium.Env):
    """Observes a number from 5 to 7, which is drawn in every step."""

    observation_space = Discrete(3, start=5)
    action_space = Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._obs(), {}

    def step(self, action):
        return self._obs(), float(action), False, False, {}

    def _obs(self):
        return int(self.np_random.integers(5, 8))


class Counter(gymnasium.Env):
    """Counts its steps, and goes beyond the 5 that its space promises."""

    observation_space = Box(0.0, 5.0, (1,), np.float32)
    action_space = Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.time += 1
        return np.full(1, self.time, np.float32), 1.0, False, False, {}


_FLATTEN = f"{__name__}:OwnFlatten"
gymnasium.register("brought/Timed-v0", Timed)
gymnasium.register("brought/Goal-v0", Goal)
gymnasium.register("brought/Counter-v0", Counter)
gymnasium.register("brought/Numbers-v0", Numbers, max_episode_steps=20)
gymnasium.register("brought/Wide-v0", Wide, max_episode_steps=20)
gymnasium.register("brought/Camera-v0", Camera)
for _class in (Line, Saved, Windless, Asked, Observing):
    gymnasium.register(f"brought/{_class.__name__}-v0", _class, max_episode_steps=50)
for _name, _wrapper in {
    "Class": OwnFlatten,
    "Bare": WrapperSpec("OwnFlatten", _FLATTEN, None),
    "Right": WrapperSpec("OwnFlatten", _FLATTEN, {}),
    "Known": gymnasium.wrappers.FlattenObservation.wrapper_spec(),
}.items():
    gymnasium.register(f"brought/{_name}-v0", Goal, additional_wrappers=(_wrapper,))
_NORMALIZERS = {
    "Obs": gymnasium.wrappers.NormalizeObservation,
    "Reward": gymnasium.wrappers.NormalizeReward,
    "OwnReward": OwnNormalizer,
    "Sub": Subclassed,
}
for _name, _wrapper in _NORMALIZERS.items():
    gymnasium.register(
        f"brought/{_name}-v0", lambda _wrapper=_wrapper: gymnasium.wrappers.ClipReward(_wrapper(Line()), -1)
    )
