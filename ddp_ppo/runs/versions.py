"""What a run was made with: releases, the exact source of this package, and the machine. Torch-free.

Two runs with the same settings and the same versions should be equal; where they are not, look here first.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import ddp_ppo
from ddp_ppo.envs.mujoco.batch import missing_batch
from ddp_ppo.machine import this_machine

_PACKAGES = ("torch", "numpy", "mujoco", "gymnasium")
_HASH_LENGTH = 12


def versions(*extra_packages: str) -> dict[str, str]:
    """Names and versions; `source` is a hash of the package's own files, so that edited code shows too."""
    return {
        "ddp_ppo": ddp_ppo.__version__,
        "source": source_hash(),
        "python": platform.python_version(),
        **{package: version(package) for package in (*_PACKAGES, *extra_packages)},
        **({"mujoco.batch": "missing"} if missing_batch() else {}),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": str(this_machine().num_cores),
    }


def source_hash() -> str:
    """The first digits of a SHA-256 over every module of the package."""
    digest = hashlib.sha256()
    home = Path(__file__).parents[1]
    for path in sorted(home.rglob("*.py")):
        digest.update(str(path.relative_to(home)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:_HASH_LENGTH]


def save_versions(path: Path, in_force: Mapping[str, str]) -> None:
    """Writes `versions()` as JSON, and what was in force where a setting left it open, such as the number of actors."""
    path.write_text(json.dumps({**versions(), **in_force}, indent=2) + "\n")
