"""Checks before training: whether a task and its configuration are fit to train, stage by stage, PASS or FAIL.

Imports maths, config, processes, envs, distributed, sampling, runs, learners, export, training and evaluation.
Start with `run.py`. Its function `check` can be imported from here as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ddp_ppo.check.run import check

__all__ = ["check"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module("ddp_ppo.check.run"), name)
