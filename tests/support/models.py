"""Policies with random parameters, as if they had been read from a file, and environments of every kind for them."""

import os
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from ddp_ppo.config.settings import Config
from ddp_ppo.envs.build import describe_env
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.runs.model import Model
from tests.support.fixtures import Count, random_parameters

CHEETAH_STATE = {"mean": np.linspace(-1, 2, 17), "var": np.geomspace(1e-4, 9.0, 17), "count": 9.0}
HOPPER_STATE = {"mean": np.linspace(-1, 2, 11), "var": np.array([0.0, *np.geomspace(0.01, 9.0, 10)]), "count": 9.0}


def random_model(
    env_id,
    *,
    hidden_sizes=(8,),
    activation="tanh",
    conv_channels=(),
    state=None,
    path="m.pt",
    discretize_actions=None,
    **env_kwargs,
):
    """A policy with outputs of order 1 in this environment."""
    arguments = Config(env_id=env_id, env_kwargs=env_kwargs, discretize_actions=discretize_actions).env_arguments
    env = describe_env(**arguments)
    network = NetworkSpec.for_env(env, hidden_sizes, activation, conv_channels)
    return Model(Path(path), "random", network, env, arguments, random_parameters(network), state, {"seed": 3})


class OneOfThree(Count):
    """Three choices, numbered from -1; another number is an error."""

    def __init__(self):
        super().__init__(length=20)
        self.action_space = Discrete(3, start=-1)

    def step(self, action):
        assert self.action_space.contains(action), action
        return super().step(action)


class Wandering(Count):
    """Goes to another folder in its first step."""

    def step(self, action):
        os.chdir("/")
        return super().step(action)


class HalfOpen(Count):
    """Two continuous actions, each with one limit."""

    def __init__(self):
        super().__init__(length=20)
        self.action_space = Box(np.float32([-0.5, -np.inf]), np.float32([np.inf, 2.0]))


class ChannelsFirst(Count):
    """Observes bytes [2, 5, 6] of its own generator."""

    def __init__(self):
        super().__init__(length=20)
        self.observation_space = Box(0, 255, (2, 5, 6), np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.picture(), {}

    def step(self, action):
        return self.picture(), *super().step(action)[1:]

    def picture(self):
        return self.np_random.integers(0, 256, (2, 5, 6)).astype(np.uint8)


for _class in (OneOfThree, Wandering, HalfOpen, ChannelsFirst):
    gymnasium.register(f"{_class.__name__}-v0", entry_point=f"{__name__}:{_class.__name__}")


def every_kind():
    """Policies of all kinds by name."""
    for activation in ("tanh", "relu", "elu"):
        yield activation, random_model("Hopper-v5", activation=activation, state=HOPPER_STATE, hidden_sizes=(32, 16))
    yield "linear", random_model("Hopper-v5", state=HOPPER_STATE, hidden_sizes=())
    yield "raw observations", random_model("Hopper-v5")
    yield "choices", random_model("CartPole-v1")
    yield "choices from -1", random_model(f"{__name__}:OneOfThree-v0")
    yield "limits on one side", random_model(f"{__name__}:HalfOpen-v0")
