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


_FLATTEN = f"{__name__}:OwnFlatten"
gymnasium.register("brought/Timed-v0", Timed)
gymnasium.register("brought/Goal-v0", Goal)
for _name, _wrapper in {
    "Class": OwnFlatten,
    "Bare": WrapperSpec("OwnFlatten", _FLATTEN, None),
    "Right": WrapperSpec("OwnFlatten", _FLATTEN, {}),
    "Known": gymnasium.wrappers.FlattenObservation.wrapper_spec(),
}.items():
    gymnasium.register(f"brought/{_name}-v0", Goal, additional_wrappers=(_wrapper,))
