"""Policies with random parameters, as if they had been read from a file."""

from pathlib import Path

import numpy as np

from ddp_ppo.config.settings import Config
from ddp_ppo.envs.build import describe_env
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.runs.model import Model
from tests.support.fixtures import random_parameters

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
