"""How one flat float32 row holds an observation: named parts in one fixed order, and views, which are columns of it.

There is one row for everything that anybody observes. A network reads its view of the row, so the rollout, the
statistics and the checkpoint hold one array whatever actor and critic see.

Shapes: D columns of the row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

View = tuple[tuple[int, int], ...]  # ranges [start, stop) of columns, ascending; empty for all columns
Plain = tuple[str, str, tuple[int, ...], float]  # name, kind, shape, scale: a part as an `EnvSpec` stores it


@dataclass(frozen=True, kw_only=True)
class ObsPart:
    """One part of an observation.

    Attributes:
        name: its key in a Dict observation; empty where the observation is one array.
        kind: "vector", "one_hot" or "image" (see `image_layout`).
        shape: before it was flattened in C order.
        scale: brings raw values to at most 1, by the space's limits: 1/255 for 0 .. 255; 1 where nobody knows.
        start: its first column in the row.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    scale: float
    start: int

    @property
    def stop(self) -> int:
        """The column behind its last one."""
        return self.start + math.prod(self.shape)


@dataclass(frozen=True)
class ObsLayout:
    """The parts of a row, from left to right."""

    parts: tuple[ObsPart, ...]

    @staticmethod
    def of(plain: Iterable[Plain]) -> ObsLayout:
        """The parts one behind the other."""
        parts, start = list[ObsPart](), 0
        for name, kind, shape, scale in plain:
            parts.append(ObsPart(name=name, kind=kind, shape=tuple(shape), scale=scale, start=start))
            start = parts[-1].stop
        return ObsLayout(tuple(parts))

    @property
    def size(self) -> int:
        """D."""
        return self.parts[-1].stop

    def view(self, names: Iterable[str]) -> View:
        """The columns of these parts.

        Raises:
            KeyError: there is no part of this name; the message lists those that there are.
        """
        known = {part.name: (part.start, part.stop) for part in self.parts}
        unknown = [name for name in names if name not in known]
        if unknown:
            raise KeyError(f"{unknown[0]!r} is not a part of the observation; its parts are {', '.join(known)}")
        return joined(known[name] for name in names)


def layout_of(fields: Mapping[str, Any]) -> ObsLayout:
    """The layout that the fields of an `EnvSpec` describe; without parts the whole row is one."""
    if fields["obs_parts"]:
        return ObsLayout.of(fields["obs_parts"])
    shape = fields["image"] or (fields["obs_size"],)
    return ObsLayout.of([("", "image" if fields["image"] else "vector", shape, fields["obs_scale"])])


MOST_CHANNELS = 4  # of a picture: grey, colours, colours and opacity, or the last four frames


def image_layout(shape: tuple[int, ...]) -> str:
    """ "channels_last" or "channels_first", where the shape of an image leaves no doubt; else empty.

    Two neighbouring sides that are equal are those of a square picture; a side of at most MOST_CHANNELS opposite a
    longer one holds channels. Where the two disagree, or neither applies, nobody can tell.
    """
    first, middle, last = shape
    is_last = first == middle != last or last <= MOST_CHANNELS < first
    is_first = first != middle == last or first <= MOST_CHANNELS < last
    if is_last == is_first:
        return ""
    return "channels_last" if is_last else "channels_first"


def joined(ranges: Iterable[tuple[int, int]]) -> View:
    """Ranges in ascending order, those that touch or overlap made one."""
    found: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], stop)
        else:
            found.append((start, stop))
    return tuple(found)


def view_size(view: View, obs_size: int) -> int:
    """Columns of a view of a row with D columns."""
    return sum(stop - start for start, stop in view) if view else obs_size


def columns_of(view: View) -> Any:
    """What selects a view's columns from the last axis of an array: all, a slice (no copy), or numbers (a copy)."""
    if not view:
        return Ellipsis
    if len(view) == 1:
        return (Ellipsis, slice(*view[0]))
    numbers: NDArray[np.int64] = np.concatenate([np.arange(*limits) for limits in view])
    return (Ellipsis, numbers)
