"""Whether the installed MuJoCo steps many simulations at once (`mujoco.batch`); found out without loading it."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

FIRST_WITH_BATCH = "3.17"


@cache
def missing_batch() -> str | None:
    """What is missing, and what to do about it; None if the MuJoCo tasks can run as arrays."""
    found = find_spec("mujoco")
    folders = found.submodule_search_locations if found is not None else None
    if any(Path(folder, "batch.py").is_file() for folder in folders or ()):
        return None
    return f"MuJoCo {version('mujoco')} has no mujoco.batch; install mujoco {FIRST_WITH_BATCH} or newer"
