"""Checkpoints: everything that training needs to go on, written atomically; what one lacks is named.

What acts is in model files, which model.py writes and reads.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.protocols import EnvSpec
from ddp_ppo.runs.agreement import with_agreement
from ddp_ppo.runs.files import FORMAT, CheckpointError, cause_of, load_plain, save_plain

_NAME = re.compile(r"checkpoint_(\d+)\.pt")
_COUNTS = ("round", "env_steps")
_NUMBERS = ("elapsed_seconds", "best_return", "eval_return")  # the returns may be NaN
_PARTS = {*_COUNTS, *_NUMBERS, "network", "env", "ranks", "obs_rms_state", "return_rms_state"}
_ACTOR_PARTS = {"env", "episode_return", "episode_length", "discounted_return"}


def save_checkpoint(folder: Path, round_index: int, state: dict[str, Any], keep: int) -> Path:
    """Writes the checkpoint after `round_index` rounds and removes all but the last `keep` up to it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"checkpoint_{round_index:07d}.pt"
    save_plain(path, {"format": FORMAT, "round": round_index, **state})
    later = checkpoints_after(folder, round_index)
    for other in [*_checkpoints(folder)[len(later) + keep :], *folder.glob(".checkpoint_*.tmp")]:
        other.unlink(missing_ok=True)
    return path


def find_checkpoint(*places: Path) -> tuple[Path, dict[str, Any], list[str]]:
    """The newest checkpoint that is whole, in a run folder, a checkpoints folder, or the named file itself.

    Args:
        places: where to look, one after the other until there is one.

    Returns:
        its path, its content with NumPy arrays, and one line for each file before it that was skipped.

    Raises:
        CheckpointError: there is none.
    """
    if len(places) == 1 and places[0].is_file():
        return places[0], _load(places[0]), []
    skipped: list[str] = []
    for place in places:
        for path in _checkpoints(place / "checkpoints") or _checkpoints(place):
            try:
                return path, _load(path), skipped
            except CheckpointError as error:
                skipped.append(f"skipped {error}")
    raise CheckpointError("; ".join([f"{', '.join(map(str, places))}: no checkpoint to resume from", *skipped]))


def checkpoints_after(folder: Path, round_index: int) -> list[Path]:
    """Those in a folder of checkpoints that are of a later round, newest first."""
    return [path for path in _checkpoints(folder) if int(path.stem.split("_")[1]) > round_index]


def is_checkpoint(path: Path) -> bool:
    """Whether a path is a run folder, a checkpoints folder or a file that is named like a checkpoint."""
    return path.is_dir() or _NAME.fullmatch(path.name) is not None


def require_whole(content: dict[str, Any]) -> None:
    """Raises TypeError or ValueError where no run could go on from a checkpoint's content.

    What is whole but does not fit a configuration is a person's mistake, which plan.py names.
    """
    _require_parts("it", content, _PARTS)
    if not all(type(content[name]) is int and content[name] >= 0 for name in _COUNTS):
        raise ValueError("round or env_steps is not a count")
    if not all(type(content[name]) in (int, float) for name in _NUMBERS):
        raise ValueError(f"one of {', '.join(_NUMBERS)} is not a number")
    network = network_of(content)
    EnvSpec(**with_tuples(content["env"]))
    for name, size in (("obs_rms_state", network.obs_size), ("return_rms_state", 1)):
        _require_parts(name, content[name], {"mean", "var", "count"})
        _require_finite(name, {**content[name], "count": np.asarray(content[name]["count"])})
        _require_shapes(name, content[name], {"mean": (size,), "var": (size,)})
    if not content["ranks"]:
        raise ValueError("ranks is empty")
    for rank in content["ranks"]:
        _require_parts("a rank", rank, {"learner", "actors"})
        _require_parts("a learner", rank["learner"], {"parameters"})  # the rest is its own business
        _require_finite("a learner", rank["learner"])
        _require_shapes("a learner", rank["learner"], {"parameters": (network.num_parameters,)})
        for actor in rank["actors"]:
            _require_parts("an actor", actor, _ACTOR_PARTS)


def _require_parts(what: str, found: Any, names: set[str]) -> None:
    if missing := names - (found.keys() if isinstance(found, dict) else set()):
        raise ValueError(f"{what} lacks {', '.join(sorted(missing))}")


def _require_finite(what: str, arrays: dict[str, Any]) -> None:
    for name, array in arrays.items():
        if isinstance(array, np.ndarray) and not np.isfinite(array).all():
            raise ValueError(f"{name} of {what} is not finite")


def _require_shapes(what: str, arrays: dict[str, Any], shapes: dict[str, tuple[int, ...]]) -> None:
    for name, shape in shapes.items():
        if np.shape(arrays[name]) != shape:
            raise ValueError(f"{name} of {what} has shape {np.shape(arrays[name])}, not {shape}")


def network_of(content: dict[str, Any]) -> NetworkSpec:
    """The network whose parameters a checkpoint or a model's spec holds."""
    fields = content.get("network")
    if fields is None:
        raise CheckpointError("not a whole checkpoint or model, it lacks network")
    network = NetworkSpec(**with_tuples(fields))
    if not network.image or network.image_layout:
        return network
    is_first = network.image[0] < network.image[-1]  # what earlier versions took for channels
    return replace(network, image_layout="channels_first" if is_first else "channels_last")


def with_tuples(fields: dict[str, Any]) -> dict[str, Any]:
    """The plain values of a specification, whose tuples a file may have made lists."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}


def _checkpoints(folder: Path) -> list[Path]:
    """Newest first."""
    numbers = {path: match[1] for path in folder.glob("checkpoint_*.pt") if (match := _NAME.fullmatch(path.name))}
    return sorted(numbers, key=lambda path: int(numbers[path]), reverse=True)


def _load(path: Path) -> dict[str, Any]:
    content = load_plain(path, "checkpoint")
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise CheckpointError(f"{path}: not a ddp_ppo checkpoint of format {FORMAT}")
    try:
        require_whole(content)
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: not a whole checkpoint ({cause_of(error)})") from error
    return with_agreement(content)
