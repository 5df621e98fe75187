"""Environments as users bring them: registered and wrapped in odd ways, with methods whose names mean something else."""

import gymnasium
import numpy as np
from gymnasium.envs.registration import WrapperSpec
from gymnasium.spaces import Box, Dict, Discrete


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
