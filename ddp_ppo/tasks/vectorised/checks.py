"""Mistakes in a design, each reported in one line with its name: when a task is built, and at every reset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import mujoco
import numpy as np
from mujoco.batch import MODEL_FIELDS

from ddp_ppo.errors import EnvError
from ddp_ppo.tasks.vectorised.design import Design

_HOW = ("set", "add", "scale")


def require_design(design: Design, model: mujoco.MjModel) -> None:
    """Raises EnvError with the first mistake that needs no simulation to be found."""
    for mistake in _mistakes(design, model):
        raise EnvError(mistake)


def require_shapes(task: Any, num_envs: int) -> None:
    """Raises EnvError if a `read` returns another shape than one value or one row for each environment."""
    design: Design = task.design
    for group in design.obs:
        width = len(group.columns)
        _require_shape(
            f"group {group.name!r}", group.read(task), {(num_envs, width)} | ({(num_envs,)} if width == 1 else set())
        )
    for term in design.rewards:
        _require_shape(f"term {term.name!r}", term.read(task), {(num_envs,)})
    for end in design.ends:
        _require_shape(f"end {end.name!r}", end.read(task), {(num_envs,)})


def _require_shape(what: str, values: Any, allowed: set[tuple[int, ...]]) -> None:
    if np.shape(values) not in allowed:
        wanted = " or ".join(str(list(shape)) for shape in sorted(allowed))
        raise EnvError(f"{what}: read returns the shape {list(np.shape(values))}, which must be {wanted}")


def _mistakes(design: Design, model: mujoco.MjModel) -> Iterator[str]:
    for kind in ("obs", "rewards", "ends", "vary"):
        yield from (f"{kind}: the name {name!r} is there twice" for name in _twice(getattr(design, kind)))
    if not design.obs or not design.rewards:
        yield "a design needs at least one group in obs and one term in rewards"
    for field in ("home", "action_scale", "action_mirror"):
        length = len(getattr(design, field))
        if length not in (0, model.nu):
            yield f"{field}: {length} values, but the model has {model.nu} actuators"
    yield from _vary_mistakes(design)
    yield from _mirror_mistakes(design)
    if design.pushes and not any(model.body(index).name == design.pushes.body for index in range(model.nbody)):
        yield f"pushes: the model has no body {design.pushes.body!r}"
    if design.commands:
        sizes = {len(design.commands.columns), len(design.commands.low), len(design.commands.high)}
        sizes |= {len(row) - 1 for row in design.commands.schedule}
        if len(sizes) > 1:
            yield "commands: columns, low, high and the rows of schedule behind their seconds differ in length"


def _vary_mistakes(design: Design) -> Iterator[str]:
    for one in design.vary:
        yield from (
            f"vary {one.name!r}: MjModel has no field {x!r} to vary" for x in one.fields if x not in MODEL_FIELDS
        )
        if one.how not in _HOW:
            yield f"vary {one.name!r}: how is {one.how!r}; use one of {', '.join(_HOW)}"
        if one.low > one.high:
            yield f"vary {one.name!r}: low {one.low:g} is above high {one.high:g}"


def _mirror_mistakes(design: Design) -> Iterator[str]:
    """A mirror image of a mirror image is the original."""
    mirrors = [(f"group {group.name!r}", group.mirror, len(group.columns)) for group in design.obs if group.mirror]
    if design.action_mirror:
        mirrors.append(("action_mirror", design.action_mirror, len(design.action_mirror)))
    for what, mirror, width in mirrors:
        pairs = dict(enumerate(mirror))
        is_own_inverse = len(mirror) == width and all(
            pairs.get(index) == (place, sign) and abs(sign) == 1.0 for place, (index, sign) in pairs.items()
        )
        if not is_own_inverse:
            yield f"{what}: its mirror must bring back the original if it is applied twice"


def _twice(parts: Iterable[Any]) -> list[str]:
    return [name for name, count in Counter(part.name for part in parts).items() if count > 1]
