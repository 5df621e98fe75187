"""Files that are complete or not there, and hold nothing but arrays and plain values.

torch's safe loader (`weights_only=True`) reads them, so nothing beyond that is ever unpickled. Their checksums are
compared on reading.
"""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from ddp_ppo.config.settings import ConfigError

FORMAT = 1  # of checkpoints and model files
# torch before 2.6 saves no tensors of these types: their bits are saved as signed numbers.
_SIGNED = {"uint16": "int16", "uint32": "int32", "uint64": "int64"}
_UNSIGNED = "unsigned type"  # marks such an array


class CheckpointError(ConfigError):
    """A file, named by a setting or a command, that cannot be used; the message says which and why."""


def write_atomically(path: Path, write: Callable[[IO[bytes]], object], folder: Path | None = None) -> None:
    """Writes a file so that its final name only ever holds a complete one, whatever happens in between.

    What is half written lies in `folder` (of the same file system), else next to the file.
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


def copy_atomically(source: Path, target: Path) -> None:
    """Makes target a complete copy of source, by way of source's folder."""
    write_atomically(target, lambda file: file.write(source.read_bytes()), source.parent)


def save_plain(path: Path, content: dict[str, Any]) -> None:
    """Writes arrays, tensors and plain values, nested in any way, to a file that the safe loader reads.

    By way of memory: on a full disk torch.save itself raises something that is not an OSError.
    """
    memory = io.BytesIO()
    torch.save(_to_tensors(content), memory)
    write_atomically(path, lambda file: file.write(memory.getbuffer()))


def load_plain(path: Path, what: str = "file") -> Any:
    """Reads what `save_plain` wrote, with NumPy arrays in place of tensors.

    Args:
        what: should be in it, for the message.

    Raises:
        CheckpointError: not such a file, or damaged.
    """
    try:
        return _to_arrays(_read(path))
    except Exception as error:  # torch.load raises many kinds for a damaged file
        raise CheckpointError(f"{path}: not a readable {what} ({cause_of(error)})") from error


def cause_of(error: Exception) -> str:
    """Why a file cannot be read, in one line."""
    if isinstance(error, pickle.UnpicklingError):
        return "damaged, or more than tensors and plain values is in it"
    return (str(error) or type(error).__name__).splitlines()[0]


def _read(path: Path) -> Any:
    """Tensors and plain values of a file. torch does not compare checksums: a flipped bit would be a parameter."""
    with path.open("rb") as file:
        with zipfile.ZipFile(file) as archive:
            if damaged := archive.testzip():
                raise ValueError(f"damaged: the checksum of {damaged} in it is wrong")
        file.seek(0)
        return torch.load(file, map_location="cpu", weights_only=True)


def _to_tensors(value: Any) -> Any:
    """NumPy arrays to tensors and NumPy scalars to Python's, all the way down."""
    if isinstance(value, np.ndarray):
        array, name = np.array(value), value.dtype.name
        if name in _SIGNED:
            return {_UNSIGNED: name, "as signed": torch.from_numpy(array.view(_SIGNED[name]))}
        return torch.from_numpy(array)
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
        if _UNSIGNED in value:
            return value["as signed"].numpy().view(value[_UNSIGNED])
        return {key: _to_arrays(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_to_arrays, value))
    return [_to_arrays(item) for item in value] if isinstance(value, list) else value
