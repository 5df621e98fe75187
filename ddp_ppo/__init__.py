"""Trains robot policies with PPO on every core and every GPU of one machine.

What programs may rely on, each name loaded when it is first used:

    run = ddp_ppo.train("HalfCheetah-v5", total_env_steps=100_000)
    policy = ddp_ppo.load_policy(run.folder)
    action = policy(obs)
    ddp_ppo.evaluate(policy, episodes=20).return_mean
    env = ddp_ppo.make_env("Ant-v5", num_envs=8)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ddp_ppo.api import LoadedPolicy, evaluate, load_policy, make_env, train
    from ddp_ppo.config.load import load_config
    from ddp_ppo.config.settings import Config

__version__ = "0.1.0"
__all__ = ["Config", "LoadedPolicy", "evaluate", "load_config", "load_policy", "make_env", "train"]

_PLACES = {"Config": "ddp_ppo.config.settings", "load_config": "ddp_ppo.config.load"}


def __getattr__(name: str) -> Any:
    """Loads a public name with its module when it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_PLACES.get(name, "ddp_ppo.api")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
