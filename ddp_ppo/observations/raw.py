"""Raw observations as the rows that a policy reads: one alone or a batch, in the environment's shape or flattened.

Shapes: N observations, D columns of the row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def rows_of(obs: ArrayLike, fields: Mapping[str, Any]) -> tuple[NDArray[np.float32], bool]:
    """The rows [N, D] of observations, and whether there was one alone.

    Args:
        obs: of the environment's own shape, flattened, or N of either; whole numbers if the space is Discrete.
        fields: of the `EnvSpec`.

    Raises:
        ValueError: they are of another size, empty, not numbers, or not finite.
    """
    array, size = _numbers(obs), fields["obs_size"]
    if fields["obs_start"] is not None and array.dtype.kind in "iu" and array.ndim <= 1:
        return _one_hot(array, fields), array.ndim == 0
    is_single = _is_single(array.shape, fields)
    if not array.size:
        raise ValueError(f"there is no observation in an array of the shape {array.shape}")
    if array.size != size * (1 if is_single else len(array) if array.ndim else 1):
        raise ValueError(f"an observation of {fields['env_id']} has {size} numbers, not the shape {array.shape}")
    with np.errstate(over="ignore"):  # what float32 cannot hold is refused as infinite
        rows = np.ascontiguousarray(array.reshape(-1, size), np.float32)
    if not np.isfinite(rows).all():
        raise ValueError(f"observation not finite in column {int(np.argwhere(~np.isfinite(rows))[0][1])}")
    return rows, is_single


def _numbers(obs: ArrayLike) -> NDArray[Any]:
    try:
        array = np.asarray(obs)
    except ValueError as error:  # lists of unequal lengths
        raise ValueError(f"observations of unequal shapes: {error}") from error
    if array.dtype.kind not in "biuf":
        raise ValueError(f"an observation is an array of numbers, not of {array.dtype}: {obs!r:.60}")
    return array


def _one_hot(numbers: NDArray[Any], fields: Mapping[str, Any]) -> NDArray[np.float32]:
    """The rows of observations of a Discrete space."""
    index, size, start = np.atleast_1d(numbers) - fields["obs_start"], fields["obs_size"], fields["obs_start"]
    if not index.size:
        raise ValueError("there is no observation in an empty array")
    if index.min() < 0 or index.max() >= size:
        raise ValueError(f"an observation of {fields['env_id']} is a number from {start} to {start + size - 1}")
    rows = np.zeros((len(index), size), np.float32)
    rows[np.arange(len(index)), index] = 1.0
    return rows


def _is_single(shape: tuple[int, ...], fields: Mapping[str, Any]) -> bool:
    """Whether an array of this shape is one observation; one of an unknown shape if it has as many numbers."""
    size, known = fields["obs_size"], fields["obs_shape"] or fields["image"]
    if shape in (known, (size,)):
        return True
    return (not known and math.prod(shape) == size and shape[:1] != (1,)) or (shape == () and size == 1)
