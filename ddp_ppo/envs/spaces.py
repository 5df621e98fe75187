"""Gymnasium spaces as flat arrays: what an observation, an action and a reward become, and which are refused.

Observations: Box of any shape and dtype (C order), Discrete as one-hot. Actions: Box of floats, which a grid can make
a few choices, Discrete.

Shapes: A dimensions of a Box action, G choices of its grid.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box, Discrete, Space
from numpy.typing import NDArray

from ddp_ppo.errors import EnvError
from ddp_ppo.protocols import FloatArray

WriteObs = Callable[[Any, FloatArray], None]
DecodeActions = Callable[[NDArray[Any]], NDArray[Any]]

MAX_CHOICES = 64  # of a grid
_UNBOUNDED = 1e6  # a limit of a picture's values from here on says nothing
NUMBERS = (float, int, np.floating, np.integer, np.bool_)


def observation_writer(space: Space[Any]) -> tuple[int, WriteObs]:
    """Returns D and the function that checks one observation and writes it into a float32 row of length D.

    Raises:
        EnvError: the space is neither Box nor Discrete, or empty.
    """
    if isinstance(space, Box):
        shape = space.shape
        if 0 in shape:
            raise EnvError(f"observation space {one_line(space)} is empty")

        is_bytes = space.dtype == np.uint8

        def write_box(obs: Any, row: FloatArray) -> None:
            array = np.asarray(obs)
            if array.shape != shape:
                raise EnvError(f"observation has shape {array.shape}, its space says {shape}")
            if is_bytes and array.dtype != np.uint8:
                _require_bytes(array)
            row[:] = array.ravel()

        return int(np.prod(shape)), write_box
    if isinstance(space, Discrete):
        size, start = int(space.n), int(space.start)

        def write_one_hot(obs: Any, row: FloatArray) -> None:
            index = operator.index(obs) - start
            if not 0 <= index < size:
                raise EnvError(f"observation {obs} is not in {space}")
            row[:] = 0.0
            row[index] = 1.0

        return size, write_one_hot
    raise EnvError(
        f"observation space {one_line(space)} is not supported: use a Box or a Discrete space; register the "
        "environment with additional_wrappers=(gymnasium.wrappers.FlattenObservation.wrapper_spec(),) to flatten it"
    )


def shape_fields(space: Space[Any]) -> dict[str, Any]:
    """The fields of `EnvSpec` from which a raw observation is told from a batch of them."""
    return {"obs_start": int(space.start)} if isinstance(space, Discrete) else {"obs_shape": space.shape}


def _require_bytes(array: NDArray[Any]) -> None:
    """Raises EnvError where values do not fit the bytes that their space says they are."""
    with np.errstate(invalid="ignore"):
        fits = array == array.astype(np.uint8)
    if not fits.all():
        value = array[~fits][0]
        raise EnvError(
            f"observation holds {value!s}, its space says uint8, whole numbers from 0 to 255: give the space the dtype "
            f"that the environment returns, {array.dtype}"
        )


def observation_fields(space: Space[Any]) -> dict[str, Any]:
    """The fields of `EnvSpec` that say what the numbers of an observation are; one-hot columns are bytes too."""
    is_bytes = isinstance(space, Discrete) or space.dtype == np.uint8
    return {"obs_dtype": "uint8" if is_bytes else "float32", **_image_fields(space)}


def _image_fields(space: Space[Any]) -> dict[str, Any]:
    if not isinstance(space, Box) or len(space.shape) != 3:
        return {}
    largest = max(float(np.abs(bound.astype(np.float64)).max()) for bound in (space.low, space.high))
    return {"image": space.shape, "obs_scale": 1.0 / largest if 0.0 < largest < _UNBOUNDED else 1.0}


class _Kind(NamedTuple):
    """How one kind of Gymnasium's action spaces becomes an action of this package."""

    fields: Callable[[Any], dict[str, Any]]  # space -> the action fields of `EnvSpec`
    decoder: Callable[[Any], DecodeActions]  # space -> from actions to the environment's own shape and dtype


def _box_fields(space: Box) -> dict[str, Any]:
    if space.dtype is None or space.dtype.kind != "f":
        raise EnvError(_unsupported(space))
    if 0 in space.shape:
        raise EnvError(f"action space {one_line(space)} is empty")
    low, high = (tuple(float(x) for x in bound.ravel()) for bound in (space.low, space.high))
    return {"action_kind": "box", "action_size": len(low), "action_low": low, "action_high": high}


def _box_decoder(space: Box) -> DecodeActions:
    shape, dtype, low, high = space.shape, space.dtype, space.low, space.high
    if dtype == np.float32:
        return lambda action: np.array(action, np.float32).reshape(-1, *shape)
    # float32(0.1) is above the float64 bound 0.1: clip again after the cast
    return lambda action: np.clip(action.astype(dtype).reshape(-1, *shape), low, high)


def _discrete_fields(space: Discrete) -> dict[str, Any]:
    return {"action_kind": "discrete", "action_size": int(space.n), "action_start": int(space.start)}


def _discrete_decoder(space: Discrete) -> DecodeActions:
    start, dtype = space.start, space.dtype
    return lambda action: (action + start).astype(dtype)


_ACTION_SPACES: dict[type[Space[Any]], _Kind] = {
    Box: _Kind(_box_fields, _box_decoder),
    Discrete: _Kind(_discrete_fields, _discrete_decoder),
}


def _kind_of(space: Space[Any]) -> _Kind:
    found = next((kind for space_class, kind in _ACTION_SPACES.items() if isinstance(space, space_class)), None)
    if found is None:
        raise EnvError(_unsupported(space))
    return found


def _unsupported(space: Space[Any]) -> str:
    return (
        f"action space {one_line(space)} is not supported: use a Box of floats or a Discrete space (flatten others "
        "with a wrapper)"
    )


def action_fields(space: Space[Any]) -> dict[str, Any]:
    """The action fields of `EnvSpec` for one of Gymnasium's action spaces.

    Raises:
        EnvError: the space is not supported; its text names it.
    """
    return _kind_of(space).fields(space)


def action_grid(low: Sequence[float], high: Sequence[float], num_bins: int) -> FloatArray:
    """Every combination [G, A] of evenly spaced values of each dimension, bounds included; the last one varies fastest.

    Args:
        low, high: bounds of the Box, length A; empty where the action space is none.
        num_bins: values of each dimension, at least 2.

    Raises:
        EnvError: there is no Box, it is unbounded or empty in a dimension, or G = num_bins ** A is above MAX_CHOICES.
    """
    setting, size = f"discretize_actions: {num_bins}", num_bins ** len(low)
    if not len(low):
        raise EnvError(f"{setting}: the action space is discrete already; remove the setting")
    if size > MAX_CHOICES:
        raise EnvError(f"{setting}: {len(low)} dimensions would make {size} choices, more than {MAX_CHOICES}")
    for index, bounds in enumerate(zip(low, high, strict=True)):
        if not (np.isfinite(bounds).all() and bounds[0] < bounds[1]):
            raise EnvError(f"{setting}: dimension {index} of the action has no range: {bounds[0]:g} to {bounds[1]:g}")
    values = [np.linspace(*bounds, num_bins) for bounds in zip(low, high, strict=True)]
    return np.array([*itertools.product(*values)], np.float32)


def action_decoder(space: Space[Any], num_bins: int | None = None) -> DecodeActions:
    """Returns the function from actions of the policy to K fresh actions of the environment's shape and dtype.

    Environments may keep the action they were given, therefore the result never shares memory with the argument.

    Args:
        num_bins: the policy's actions are choices of the grid with so many values of each dimension; None if not.
    """
    decode = _kind_of(space).decoder(space)
    if num_bins is None:
        return decode
    fields = action_fields(space)
    grid = action_grid(fields.get("action_low", ()), fields.get("action_high", ()), num_bins)
    return lambda action: decode(grid[action])


def as_reward(value: Any) -> float:
    """A Python or NumPy number, a bool or an array of shape () or (1,) as float.

    Raises:
        EnvError: anything else, named as "reward".
    """
    if isinstance(value, NUMBERS):
        return float(value)
    array = np.asarray(value)
    if array.shape not in ((), (1,)) or array.dtype.kind not in "biuf":
        raise EnvError(f"reward must be one number, not {value!r} of type {type(value).__name__}, shape {array.shape}")
    return float(array.item())


def one_line(space: Space[Any]) -> str:
    """A space in words, in one line of at most 100 characters."""
    text = " ".join(str(space).split())
    return text if len(text) <= 100 else f"{text[:97]}..."
