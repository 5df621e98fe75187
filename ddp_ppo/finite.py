"""Finds the first value of a rollout that is not finite, where it arose. Torch-free.

Within a step the order is observation, action, reward, next observation; what is computed from a whole rollout comes
after all steps. Only the first one is worth a look: the others follow from it.

Shapes: T rollout_length, K environments of the actor, D observation size, A action size.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.rollout import Arrays

_STEP_FIELDS = {"obs": "observation", "act": "action", "reward": "reward", "final_obs": "final observation"}
_ANNOTATIONS = {"value": "value", "final_value": "final value", "logp": "logp", "adv": "advantage", "ret": "return"}


class NonFiniteError(ValueError):
    """The first value that is not finite: what it is and where it arose, in words and as plain values."""

    def __init__(self, text: str, where: dict[str, Any] | None = None) -> None:
        super().__init__(text)
        self.where = where


class NotFinite(NamedTuple):
    """Where the first value that is not finite stands.

    Attributes:
        stage: what it is: "observation", "reward", ...
        env: index among the actor's environments.
        step: number of the step in the rollout that brought it, from 1; 0 is the observation before the first step.
        column: of the observation or action, None for scalars.
        value: "nan", "inf" or "-inf".
    """

    stage: str
    env: int
    step: int
    column: int | None
    value: str


def first_in_steps(columns: Arrays) -> NotFinite | None:
    """The first one among what the steps wrote; final observations count where an episode was truncated."""
    found = []
    for order, (name, stage) in enumerate(_STEP_FIELDS.items()):
        values = columns[name]
        if name == "final_obs":
            if not columns["truncated"].any():
                continue
            values = np.where(columns["truncated"][..., None], values, 0.0)
        bad = _first(values, stage)
        if bad is not None:
            row = bad.step if name == "obs" else bad.step + 1  # row t of obs is what step t brought
            found.append((row, (order - 1) % len(_STEP_FIELDS), bad._replace(step=row)))
    return min(found)[2] if found else None


def first_in_annotations(columns: Arrays) -> NotFinite | None:
    """The first one among what was computed from the steps, in the order of computation."""
    for name, stage in _ANNOTATIONS.items():
        if name in columns and (bad := _first(columns[name], stage)) is not None:
            return bad._replace(step=bad.step + 1)
    return None


def _first(values: NDArray[np.generic], stage: str) -> NotFinite | None:
    """The earliest row [T, K, ...] with a value that is not finite; its step is the row."""
    if not np.issubdtype(values.dtype, np.floating) or np.isfinite(values).all():
        return None
    step, env, *rest = np.argwhere(~np.isfinite(values))[0].tolist()
    return NotFinite(stage, env, step, rest[0] if rest else None, str(values[(step, env, *rest)]))
