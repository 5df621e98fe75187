"""Settings: their declarations, their rules, and reading them from YAML and the command line.

Imports nothing else from the package. Start with `settings.py`. `Config`, `ConfigError` and `load_config` can be
imported from here as well; each is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ddp_ppo.config.load import load_config
    from ddp_ppo.config.settings import Config, ConfigError

__all__ = ["Config", "ConfigError", "load_config"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    place = "ddp_ppo.config.load" if name == "load_config" else "ddp_ppo.config.settings"
    return getattr(importlib.import_module(place), name)
