"""Whether two instances of one environment are the same to a policy; if not, what differs between them.

Everything that trains a policy takes the spaces and the time limit of one instance for those of all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from gymnasium import spaces

from ddp_ppo.errors import EnvError
from ddp_ppo.protocols import EnvSpec

Built = tuple[Any, int | None]  # an environment and its time limit
_LIMITS = ("low", "high", "bounded_below", "bounded_above")
_HINT = "all instances need the same spaces and time limit: draw what varies in reset, or scale it inside"


def require_same(one: EnvSpec, other: EnvSpec, name: str, other_name: str) -> None:
    """Raises EnvError with the first field in which two descriptions differ; the names are those of the instances."""
    for field in (field.name for field in fields(one) if field.compare):
        value, expected = getattr(one, field), getattr(other, field)
        if value != expected:
            _refuse(f"{other.env_id}: {name}", other_name, _first_difference(field, value, expected))


def require_alike(one: Built, other: Built, name: str, other_name: str) -> None:
    """The same of two of Gymnasium's environments, each with its time limit; limits of observed floats may differ."""
    for what in ("observation_space", "action_space"):
        first, second = getattr(one[0], what), getattr(other[0], what)
        if first != second and (found := _difference_of_spaces(what, first, second)) is not None:
            _refuse(name, other_name, found)
    if one[1] != other[1]:
        _refuse(name, other_name, ("its time limit", one[1], other[1]))


def _refuse(name: str, other_name: str, found: tuple[str, Any, Any]) -> None:
    where, value, other = found
    raise EnvError(f"{name} differs from {other_name}: {where} is {value} and not {other}; {_HINT}")


def _difference_of_spaces(where: str, one: Any, other: Any) -> tuple[str, Any, Any] | None:
    """The place in two spaces where they differ, and both values; None if that does not matter."""
    if type(one) is not type(other):
        return where, type(one).__name__, type(other).__name__
    if isinstance(one, spaces.Dict | spaces.Tuple):
        return _difference_of_parts(where, _parts(one), _parts(other))
    is_observed_float = where.startswith("observation") and isinstance(one, spaces.Box) and one.dtype.kind == "f"
    for name, first in vars(one).items():
        if name == "_np_random" or (is_observed_float and name in _LIMITS):
            continue
        if not np.array_equal(first, second := vars(other)[name]):
            return _first_difference(f"{where}.{name.lstrip('_')}", first, second)
    return None


def _parts(space: Any) -> dict[Any, Any]:
    return dict(space.spaces) if isinstance(space, spaces.Dict) else dict(enumerate(space.spaces))


def _difference_of_parts(where: str, one: Mapping[Any, Any], other: Mapping[Any, Any]) -> tuple[str, Any, Any] | None:
    if list(one) != list(other):
        return f"the parts of {where}", list(one), list(other)
    found = (_difference_of_spaces(f"{where}[{key!r}]", space, other[key]) for key, space in one.items())
    return next((each for each in found if each is not None), None)


def _first_difference(where: str, one: Any, other: Any) -> tuple[str, Any, Any]:
    """The first entry where two arrays of one shape differ; otherwise the values themselves."""
    first, second = np.asarray(one), np.asarray(other)
    if first.dtype == object or first.shape != second.shape or not first.ndim:
        return where, one, other
    index = tuple(np.argwhere(first != second)[0].tolist())
    return f"{where}{list(index)}", first[index], second[index]
