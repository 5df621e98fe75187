"""Gymnasium spaces as flat arrays: what an observation, an action and a reward become, and which are refused.

Observations: Box of any shape and dtype (C order), Discrete as one-hot. Actions: Box of floats, Discrete.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, Space
from numpy.typing import NDArray

from ddp_ppo.env_errors import EnvError
from ddp_ppo.protocols import FloatArray

WriteObs = Callable[[Any, FloatArray], None]
DecodeActions = Callable[[NDArray[Any]], NDArray[Any]]

NUMBERS = (float, int, np.floating, np.integer, np.bool_)


def observation_writer(space: Space[Any]) -> tuple[int, WriteObs]:
    """Returns D and the function that checks one observation and writes it into a float32 row of length D.

    Raises:
        EnvError: the space is neither Box nor Discrete, or empty.
    """
    if isinstance(space, Box):
        shape = space.shape
        if 0 in shape:
            raise EnvError(f"observation space {_one_line(space)} is empty")

        def write_box(obs: Any, row: FloatArray) -> None:
            array = np.asarray(obs)
            if array.shape != shape:
                raise EnvError(f"observation has shape {array.shape}, its space says {shape}")
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
    raise EnvError(f"observation space {_one_line(space)} is not supported: use a Box or a Discrete space")


def action_fields(space: Space[Any]) -> dict[str, Any]:
    """The action fields of `EnvSpec` for a Box of floats or a Discrete space.

    Raises:
        EnvError: any other space.
    """
    if isinstance(space, Box) and space.dtype is not None and space.dtype.kind == "f":
        if 0 in space.shape:
            raise EnvError(f"action space {_one_line(space)} is empty")
        low, high = (tuple(float(x) for x in bound.ravel()) for bound in (space.low, space.high))
        return {"action_kind": "box", "action_size": len(low), "action_low": low, "action_high": high}
    if isinstance(space, Discrete):
        return {"action_kind": "discrete", "action_size": int(space.n), "action_start": int(space.start)}
    raise EnvError(
        f"action space {_one_line(space)} is not supported: use a Box of floats or a Discrete space (flatten others "
        "with a wrapper)"
    )


def action_decoder(space: Space[Any]) -> DecodeActions:
    """Returns the function from actions of the policy to K fresh actions of the environment's shape and dtype.

    Environments may keep the action they were given, therefore the result never shares memory with the argument.
    """
    if isinstance(space, Discrete):
        start, dtype = space.start, space.dtype
        return lambda action: (action + start).astype(dtype)
    assert isinstance(space, Box)
    shape, dtype, low, high = space.shape, space.dtype, space.low, space.high
    if dtype == np.float32:
        return lambda action: np.array(action, np.float32).reshape(-1, *shape)
    # float32(0.1) is above the float64 bound 0.1: clip again after the cast
    return lambda action: np.clip(action.astype(dtype).reshape(-1, *shape), low, high)


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


def _one_line(space: Space[Any]) -> str:
    return " ".join(str(space).split())
