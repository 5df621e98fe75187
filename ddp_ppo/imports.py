"""Modules of a user, which settings name as `module:attribute`: one rule for environments, policies and learners."""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType


def import_here(name: str) -> ModuleType:
    """Imports a module; the current folder counts as a place for modules, also in spawned processes."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    return importlib.import_module(name)
