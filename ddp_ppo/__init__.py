"""Trains robot policies with PPO on every core and every GPU of a machine, or of several.

What programs may rely on, each name loaded when it is first used:

    run = ddp_ppo.train("HalfCheetah-v5", total_env_steps=100_000)
    policy = ddp_ppo.load_policy(run.folder)
    action = policy(obs)
    ddp_ppo.evaluate(policy, episodes=20).return_mean
    env = ddp_ppo.make_env("Ant-v5", num_envs=8)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ddp_ppo.api import LoadedPolicy, evaluate, load_policy, make_env, train
    from ddp_ppo.config.load import load_config
    from ddp_ppo.config.settings import Config, ConfigError
    from ddp_ppo.errors import EnvError
    from ddp_ppo.evaluation.evaluate import Evaluation
    from ddp_ppo.protocols import BatchEnv
    from ddp_ppo.runs.files import CheckpointError
    from ddp_ppo.sampling.actor_pool import ActorError
    from ddp_ppo.training.history import TrainingResult

__version__ = "0.1.0"
__all__ = [
    "ActorError",
    "BatchEnv",
    "CheckpointError",
    "Config",
    "ConfigError",
    "EnvError",
    "Evaluation",
    "LoadedPolicy",
    "TrainingResult",
    "evaluate",
    "load_config",
    "load_policy",
    "make_env",
    "train",
]

_PLACES = {  # of the names that are not in api.py
    "ActorError": "sampling.actor_pool",
    "BatchEnv": "protocols",
    "CheckpointError": "runs.files",
    "Config": "config.settings",
    "ConfigError": "config.settings",
    "EnvError": "errors",
    "Evaluation": "evaluation.evaluate",
    "TrainingResult": "training.history",
    "load_config": "config.load",
}

if not TYPE_CHECKING:  # else every name would pass a type checker

    def __getattr__(name):
        """Loads a public name with its module when it is first asked for."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import importlib

        value = getattr(importlib.import_module(f"ddp_ppo.{_PLACES.get(name, 'api')}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
