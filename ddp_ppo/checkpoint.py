"""Files that outlive a run: checkpoints (to go on training) and model files (to act), both written atomically.

Everything in them is a tensor or a plain value, so torch's safe loader (`weights_only=True`) reads them and nothing is
ever unpickled beyond that.
"""

from __future__ import annotations

import io
import os
import pickle
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from ddp_ppo.config import ConfigError
from ddp_ppo.moments import RmsState
from ddp_ppo.networks import NetworkSpec, from_named, to_named
from ddp_ppo.protocols import EnvSpec, FloatArray

FORMAT = 1
_NAME = re.compile(r"checkpoint_(\d+)\.pt")


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


def find_checkpoint(place: Path) -> tuple[Path, dict[str, Any], list[str]]:
    """The newest checkpoint that can be read, in a run folder, a checkpoints folder, or the named file itself.

    Returns:
        its path, its content with NumPy arrays, and one line for each newer file that was skipped.

    Raises:
        CheckpointError: there is none.
    """
    if place.is_file():
        return place, _load(place), []
    candidates = _checkpoints(place / "checkpoints") or _checkpoints(place)
    skipped: list[str] = []
    for path in candidates:
        try:
            return path, _load(path), skipped
        except CheckpointError as error:
            skipped.append(f"skipped {error}")
    raise CheckpointError("; ".join([f"{place}: no checkpoint to resume from", *skipped]))


def is_checkpoint(path: Path) -> bool:
    """Whether a path is a run folder, a checkpoints folder or a file that is named like a checkpoint."""
    return path.is_dir() or _NAME.fullmatch(path.name) is not None


def require_whole(path: Path, content: dict[str, Any]) -> None:
    """Raises CheckpointError where a checkpoint lacks what a run goes on from."""
    missing = {"network", "env", "ranks", "obs_rms_state", "return_rms_state"} - content.keys()
    if missing:
        raise CheckpointError(f"{path}: not a whole checkpoint, it lacks {', '.join(sorted(missing))}")


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
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch.load raises many kinds for a damaged file
        raise CheckpointError(f"{path}: not a readable checkpoint ({_first_line(error)})") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT or "round" not in content:
        raise CheckpointError(f"{path}: not a ddp_ppo checkpoint of format {FORMAT}")
    return dict(_to_arrays(content))


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
        content = torch.load(path, map_location="cpu", weights_only=True)
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
        return dict(_to_arrays(torch.load(path, map_location="cpu", weights_only=True)))
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
        return {key: _to_tensors(item) for key, item in value.items()}
    return [_to_tensors(item) for item in value] if isinstance(value, list | tuple) else value


def _to_arrays(value: Any) -> Any:
    """Tensors to NumPy arrays, all the way down."""
    if isinstance(value, torch.Tensor):
        return value.numpy()
    if isinstance(value, dict):
        return {key: _to_arrays(item) for key, item in value.items()}
    return [_to_arrays(item) for item in value] if isinstance(value, list) else value
