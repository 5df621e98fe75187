"""The settings of a run that goes on from a checkpoint: what keeps its value, what changes now, what cannot change.

A setting is named by a word, in code, or by a line of a file. Where the run has a setting from a word of an earlier
start, only another word changes it. What is not named keeps the run's value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ddp_ppo.config.settings import Config
from ddp_ppo.config.settle import Origin
from ddp_ppo.config.writing import read_effective
from ddp_ppo.config.yaml_text import RefusedError, plain_data, to_yaml
from ddp_ppo.runs.files import CheckpointError

_OF_A_START = ("resume", "run_name", "output_dir")  # they say where to look, or where a new run goes
_TASK = ("learner", "env_id", "env_ids")
_WORDS = ("command line", "code")
_KEPT = "the run so far"  # the origin of a value that nothing names

_LOADED = "the run goes on from its own checkpoint"
_FIXED = {
    "normalize_obs": "the policy has learnt from observations as they were",
    "init_log_std": "it is where a new run begins, and the policy has its own by now; init_from starts a new run",
    "init_from": _LOADED,
    "init_statistics": _LOADED,
}
# What of a changed setting a checkpoint would undo: the rate, where episodes stand, and the network itself.
RATE = frozenset({"learning_rate", "learning_rate_schedule"})
SHAPE = frozenset({"hidden_sizes", "activation", "conv_channels", "discretize_actions"})
EPISODES = frozenset({"seed", "env_kwargs", "env_backend", "max_episode_steps", "remove_profiler_clock"})


class Continued(NamedTuple):
    """The configuration that a run goes on with.

    Attributes:
        changed: the settings that have another value than in the run so far.
        notes: what a person should know of it.
    """

    config: Config
    changed: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


def settings_content(config: Config) -> dict[str, list[Any]]:
    """Name -> value and origin of each setting, as a checkpoint keeps them: plain values."""
    values = {name: value for name, value in config.values().items() if name not in _OF_A_START}
    return {name: [plain_data(value), str(config.origins[name])] for name, value in values.items()}


def continued(config: Config, path: Path, content: Mapping[str, Any]) -> Continued:
    """The configuration with what a checkpoint's run has and nothing names now.

    Raises:
        CheckpointError: a setting is changed that a run cannot change.
        ConfigError: what the run has and what is named now cannot be used together.
    """
    saved = _saved(path, content)
    if any(_differs(config, name, saved) for name in _TASK):
        return Continued(config)  # of another task or learner, which is refused later
    kept = {
        name: value
        for name, (value, origin) in saved.items()
        if _differs(config, name, saved) and not _is_named(config.origins[name], origin)
    }
    if content["env_steps"] >= kept.get("total_env_steps", math.inf):
        del kept["total_env_steps"]  # a finished run goes on as far as this start asks for
    notes = [f"{name}: {to_yaml(value)}, not {to_yaml(config.values()[name])}" for name, value in kept.items()]
    notes = [f"kept from the run so far, as no word names it: {'; '.join(notes)}"] if notes else []
    if kept:
        origins = {name: Origin.of(_KEPT, value, is_inherited=True) for name, value in kept.items()}
        config = replace(config, **kept, origins={**config.origins, **origins})
    changed = [name for name in saved if _differs(config, name, saved)]
    for name in changed:
        _require_changeable(config, name, saved[name][0])
    values = config.values()
    changes = [f"{name}: {to_yaml(saved[name][0])} -> {to_yaml(values[name])}" for name in changed]
    notes += [f"settings that differ from the run so far: {'; '.join(changes)}"] if changes else []
    return Continued(config, frozenset(changed), tuple(notes))


def _saved(path: Path, content: Mapping[str, Any]) -> dict[str, tuple[Any, str]]:
    """Name -> value and origin in the checkpoint, else in the file beside it; empty where neither tells."""
    if "settings" in content:
        return {name: (value, origin) for name, (value, origin) in content["settings"].items()}
    effective = path.parent.parent / "config.yaml"
    try:
        return read_effective(effective.read_text(encoding="utf-8"), str(effective))
    except (OSError, UnicodeDecodeError, RefusedError):
        return {}  # a checkpoint of an earlier release that was copied elsewhere


def _differs(config: Config, name: str, saved: Mapping[str, tuple[Any, str]]) -> bool:
    values = config.values()
    if name in _OF_A_START or name not in values or name not in saved:
        return False
    if name in ("init_from", "init_statistics") and not config.is_named(name):
        return False  # they were for the first start
    return bool(plain_data(values[name]) != saved[name][0])


def _is_named(now: str, before: str) -> bool:
    """Whether a setting with this origin is named now, where the run has it from that one."""
    return now in _WORDS or (now != "default" and before not in (*_WORDS, _KEPT))


def _require_changeable(config: Config, name: str, before: Any) -> None:
    if name in _FIXED:
        now = to_yaml(config.values()[name])
        raise CheckpointError(
            f"{config.origins[name]}: {name}: {now} cannot replace {to_yaml(before)} in a run that goes on, as "
            f"{_FIXED[name]}; leave {name} out"
        )
