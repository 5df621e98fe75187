"""Which configuration a word means: a file, one that comes with the package, or an environment's id.

The package's own lie in `configs/`: in a checkout at the top level, in an installed package inside of it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from ddp_ppo.config.paths import expand_path
from ddp_ppo.config.setting import ConfigError
from ddp_ppo.config.yaml_text import RefusedError, values_of

FOLDER = (Path(__file__).resolve().parents[1] / "configs").resolve()
_FOR_ANY_TASK = "base"
LOCK_FILE = "lock"  # of a run folder; its second line is the name of the run's configuration


class Source(NamedTuple):
    """Where settings come from.

    Attributes:
        path: the file.
        name: what the configuration is called.
        words: `key=value` words that stand before those of the command line.
        is_packaged: whether a person has not named the file itself, so that nobody chose its settings.
    """

    path: str
    name: str
    words: tuple[str, ...] = ()
    is_packaged: bool = False


def find_source(word: str) -> Source:
    """The configuration that a word means.

    An environment's id takes the package's configuration for that task, else `base` with this task.

    Raises:
        ConfigError: it is neither a file nor a name, or an environment variable in it is not set.
    """
    if word in _names():
        return Source(str(FOLDER / f"{word}.yaml"), word, is_packaged=True)
    try:
        path = expand_path(word)
    except RefusedError as error:
        raise ConfigError(f"{word}: {error}") from error
    folder = os.path.dirname(path)
    if os.path.exists(path) or path.endswith((".yaml", ".yml")) or (folder and os.path.isdir(folder)):
        return Source(path, name_of_run(Path(path).parent) or Path(path).stem)
    if "=" in word or not word.strip():
        allowed = "a YAML file, the name of a configuration such as half_cheetah, or an environment's id"
        raise ConfigError(f"command line: {word}: the first word is the configuration: {allowed}")
    name = re.sub(r"[^\w.-]+", "_", word.rpartition(":")[2])
    if found := _of_task(word, name):
        return Source(str(FOLDER / f"{found}.yaml"), found, is_packaged=True)
    return Source(str(FOLDER / f"{_FOR_ANY_TASK}.yaml"), name, (f"env_id={word}",), is_packaged=True)


def name_of_run(folder: Path) -> str | None:
    """What the configuration of a run is called, by the folder of the run; None if it is not such a folder."""
    lock = folder / LOCK_FILE
    lines = lock.read_bytes().split(b"\n") if lock.is_file() else []
    return lines[1].decode("utf-8", "replace") or None if len(lines) > 1 else None


def _names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def _of_task(env_id: str, name: str) -> str | None:
    """The configuration that trains PPO on the task, best the one called after it."""
    fitting = []
    for stem in _names():
        values = _values(FOLDER / f"{stem}.yaml")
        if values.get("env_id") == env_id and "learner" not in values:
            fitting.append(stem)
    task = re.sub(r"-v\d+$", "", name).lower()
    return min(fitting, key=lambda stem: (stem.replace("_", "") != task, stem), default=None)


def _values(path: Path) -> dict[str, Any]:
    """What a file of the package and those that it inherits give, unchecked."""
    own = {key: value for key, (value, _) in values_of(path.read_text(encoding="utf-8"), str(path)).items()}
    return (_values(path.parent / own["inherits"]) if "inherits" in own else {}) | own
