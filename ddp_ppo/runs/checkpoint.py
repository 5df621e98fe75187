"""Files that outlive a run: checkpoints (to go on training) and model files (to act), both written atomically.

Everything in them is a tensor or a plain value, so torch's safe loader (`weights_only=True`) reads them and nothing is
ever unpickled beyond that. The checksums in them are compared when they are read, and what a checkpoint lacks is named.
"""

from __future__ import annotations

import io
import os
import pickle
import re
import zipfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from ddp_ppo.config.settings import ConfigError
from ddp_ppo.maths.moments import RmsState
from ddp_ppo.policies.network import NetworkSpec, from_named, to_named
from ddp_ppo.protocols import EnvSpec, FloatArray
from ddp_ppo.runs.agreement import with_agreement

FORMAT = 1
_NAME = re.compile(r"checkpoint_(\d+)\.pt")
_COUNTS = ("round", "env_steps")
_NUMBERS = ("elapsed_seconds", "best_return", "eval_return")  # the returns may be NaN
_PARTS = {*_COUNTS, *_NUMBERS, "network", "env", "ranks", "obs_rms_state", "return_rms_state"}
_ACTOR_PARTS = {"env", "episode_return", "episode_length", "discounted_return"}


class CheckpointError(ConfigError):
    """A file, named by a setting or a command, that cannot be used; the message says which and why."""


def write_atomically(path: Path, write: Callable[[IO[bytes]], object], folder: Path | None = None) -> None:
    """Writes a file so that its final name only ever holds a whole one, whatever happens in between.

    What is half written lies in `folder` (of the same file system), else beside the file.
    """
    temporary = (folder or path.parent) / f".{path.name}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    parent = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)


def save_checkpoint(folder: Path, round_index: int, state: dict[str, Any], keep: int) -> Path:
    """Writes the checkpoint after `round_index` rounds and removes all but the last `keep`.

    Later ones go too: the run went on from an older one and has left them behind.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"checkpoint_{round_index:07d}.pt"
    content = {"format": FORMAT, "round": round_index, **_to_tensors(state)}
    _save(path, content)
    found = _checkpoints(folder)
    kept = [one for one in found if int(one.stem.split("_")[1]) <= round_index][:keep]
    for other in [*(one for one in found if one not in kept), *folder.glob(".checkpoint_*.tmp")]:
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


def is_checkpoint(path: Path) -> bool:
    """Whether a path is a run folder, a checkpoints folder or a file that is named like a checkpoint."""
    return path.is_dir() or _NAME.fullmatch(path.name) is not None


def require_whole(content: dict[str, Any]) -> None:
    """Raises TypeError or ValueError where no run could go on from a checkpoint's content.

    What is whole but does not fit a configuration is a person's mistake, which plan.py names.
    """
    _require_parts("it", content, _PARTS)
    if not all(type(content[name]) is int and content[name] >= 0 for name in _COUNTS):
        raise ValueError("round or env_steps is no count")
    if not all(type(content[name]) in (int, float) for name in _NUMBERS):
        raise ValueError(f"one of {', '.join(_NUMBERS)} is no number")
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
    return NetworkSpec(**with_tuples(fields))


def with_tuples(fields: dict[str, Any]) -> dict[str, Any]:
    """The plain values of a specification, whose tuples a file may have made lists."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}


def _checkpoints(folder: Path) -> list[Path]:
    """Newest first."""
    numbers = {path: match[1] for path in folder.glob("checkpoint_*.pt") if (match := _NAME.fullmatch(path.name))}
    return sorted(numbers, key=lambda path: int(numbers[path]), reverse=True)


def _load(path: Path) -> dict[str, Any]:
    try:
        content = _to_arrays(_read(path))
    except Exception as error:  # torch.load raises many kinds for a damaged file
        raise CheckpointError(f"{path}: not a readable checkpoint ({_first_line(error)})") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise CheckpointError(f"{path}: not a ddp_ppo checkpoint of format {FORMAT}")
    try:
        require_whole(content)
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: not a whole checkpoint ({_first_line(error)})") from error
    return with_agreement(content)


def _read(path: Path) -> Any:
    """Tensors and plain values of a file. torch does not compare checksums: a flipped bit would be a parameter."""
    with path.open("rb") as file:
        with zipfile.ZipFile(file) as archive:
            if damaged := archive.testzip():
                raise ValueError(f"damaged: the checksum of {damaged} in it is wrong")
        file.seek(0)
        return torch.load(file, map_location="cpu", weights_only=True)


def save_model(
    path: Path,
    network: NetworkSpec,
    env: EnvSpec,
    parameters: FloatArray,
    state: RmsState | None,
    about: dict[str, Any],
) -> None:
    """Writes a model file: actor and critic as state dicts of an nn.Sequential, log_std, normaliser, and a spec.

    Args:
        about: plain values that say where the model comes from; part of the spec.
    """
    named = {name: torch.from_numpy(array) for name, array in to_named(network, parameters).items()}
    content = {
        **{trunk: _without_prefix(named, f"{trunk}.") for trunk in ("actor", "critic")},
        "log_std": named.get("log_std"),
        "obs_rms_state": _to_tensors(state),
        "spec": {"format": FORMAT, "network": asdict(network), "env": asdict(env), **about},
    }
    _save(path, content)


def _save(path: Path, content: dict[str, Any]) -> None:
    """By way of memory: on a full disk torch.save itself raises something that is no OSError."""
    memory = io.BytesIO()
    torch.save(content, memory)
    write_atomically(path, lambda file: file.write(memory.getbuffer()))


def _without_prefix(named: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in named.items() if name.startswith(prefix)}


def load_model(path: Path) -> tuple[NetworkSpec, EnvSpec, FloatArray, RmsState | None, dict[str, Any]]:
    """Reads a model file.

    Returns:
        network, env, parameters [P], normaliser state, and the whole spec.

    Raises:
        CheckpointError: not a model file, or damaged.
    """
    try:
        content = _read(path)
        if not isinstance(content, dict) or not isinstance(content.get("spec"), dict):
            raise ValueError("not a model of ddp_ppo: it holds no spec")
        spec = content["spec"]
        if spec["format"] != FORMAT:
            raise ValueError(f"format {spec['format']}, this program reads format {FORMAT}")
        network = network_of(spec)
        named = {f"{t}.{name}": tensor.numpy() for t in ("actor", "critic") for name, tensor in content[t].items()}
        if content["log_std"] is not None:
            named["log_std"] = content["log_std"].numpy()
        parameters = from_named(network, named)
        env, state = EnvSpec(**spec["env"]), _to_arrays(content["obs_rms_state"])
    except Exception as error:
        raise CheckpointError(f"{path}: not a readable model file ({_first_line(error)})") from error
    return network, env, parameters, state, spec


def _first_line(error: Exception) -> str:
    if isinstance(error, pickle.UnpicklingError):
        return "damaged, or more than tensors and plain values is in it"
    return (str(error) or type(error).__name__).splitlines()[0]


def save_plain(path: Path, content: dict[str, Any]) -> None:
    """Writes arrays and plain values to a file that the safe loader reads."""
    _save(path, _to_tensors(content))


def load_plain(path: Path) -> dict[str, Any]:
    """Reads what `save_plain` wrote.

    Raises:
        CheckpointError: not such a file, or damaged.
    """
    try:
        return dict(_to_arrays(_read(path)))
    except Exception as error:
        raise CheckpointError(f"{path}: not readable ({_first_line(error)})") from error


def copy_atomically(source: Path, target: Path) -> None:
    """Makes target a whole copy of source, by way of source's folder."""
    write_atomically(target, lambda file: file.write(source.read_bytes()), source.parent)


def _to_tensors(value: Any) -> Any:
    """NumPy arrays to tensors and NumPy scalars to Python's, all the way down."""
    if isinstance(value, np.ndarray):
        return torch.from_numpy(np.array(value))
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {_to_tensors(key): _to_tensors(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_to_tensors, value))
    return [_to_tensors(item) for item in value] if isinstance(value, list) else value


def _to_arrays(value: Any) -> Any:
    """Tensors to NumPy arrays, all the way down."""
    if isinstance(value, torch.Tensor):
        return value.numpy()
    if isinstance(value, dict):
        return {key: _to_arrays(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_to_arrays, value))
    return [_to_arrays(item) for item in value] if isinstance(value, list) else value
