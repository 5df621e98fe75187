"""The counting policy of counting_policy.py as a model, and what it does in an episode."""

from pathlib import Path

from ddp_ppo.config.settings import Config
from ddp_ppo.envs.build import describe_env
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.runs.model import Model
from tests.support.counting_policy import choice_at
from tests.support.fixtures import random_parameters

ENV_ID, POLICY = "tests.support.counting_policy:Rhythm-v0", "tests.support.counting_policy:CountingPolicy"
LENGTH = 11  # of an episode; rollouts of 8 steps end in mid-episode
EXPECTED = [choice_at(step) for step in range(LENGTH)]


def counting_model():
    """A counting policy as a model."""
    arguments = Config(env_id=ENV_ID).env_arguments
    env = describe_env(**arguments)
    network = NetworkSpec.for_env(env, (4,), "tanh")
    info = {"seed": 1, "policy_backend": POLICY}
    return Model(Path("m.pt"), "m", network, env, arguments, random_parameters(network), None, info)
