"""Finds the first value of a rollout, or of the parameters, that is not finite, where it arose. Torch-free.

Within a step the order is observation, action, reward, next observation; what is computed from a whole rollout comes
after all steps. Only the first one is worth a look: the others follow from it.

Shapes: T rollout_length, K environments of the actor or B of the learner, D observation size, A action size, P
parameters.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.policies.network import NetworkSpec, to_named
from ddp_ppo.protocols import Arrays

SIMULATION_STATE = "simulation state"  # the stage before the observation, where an environment lets one look at it

_STEP_FIELDS = {"obs": "observation", "act": "action", "reward": "reward", "final_obs": "final observation"}
_ANNOTATIONS = {"logits": "logits", "value": "value", "final_value": "final value", "logp": "logp"}
_ANNOTATIONS |= {"adv": "advantage", "ret": "return"}


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
        name: what the environment calls the column, or the joint of the simulation; empty where it has no name.
    """

    stage: str
    env: int
    step: int
    column: int | None
    value: str
    name: str = ""

    def words(self, first_env: int = 0) -> str:
        """The same for a person; first_env is what environment 0 is called."""
        place = f"of environment {first_env + self.env} is {self.value} in step {self.step} of the rollout"
        column = "" if self.column is None else f", column {self.column}"
        if self.stage == SIMULATION_STATE:
            seen = f"the observation{column}" if column else "the reward"
            return f"the {self.stage} {place}: {self.name}; seen in {seen}"
        return f"the {self.stage} {place}{column}" + (f" ({self.name})" if self.name else "")


def first_in_rollout(slices: Arrays) -> NotFinite | None:
    """The first one of an annotated rollout."""
    return first_in_steps(slices) or first_in_annotations(slices)


def first_in_steps(slices: Arrays) -> NotFinite | None:
    """The first one among what the steps wrote; final observations count where an episode was truncated."""
    found = []
    for order, (name, stage) in enumerate(_STEP_FIELDS.items()):
        bad = _first_final(slices, stage) if name == "final_obs" else _first(slices[name], stage)
        if bad is not None:
            row = bad.step if name == "obs" else bad.step + 1  # row t of obs is what step t brought
            found.append((row, (order - 1) % len(_STEP_FIELDS), bad._replace(step=row)))
    return min(found)[2] if found else None


def first_in_annotations(slices: Arrays) -> NotFinite | None:
    """The first one among what was computed from the steps, in the order of computation."""
    for name, stage in _ANNOTATIONS.items():
        if name in slices and (bad := _first(slices[name], stage)) is not None:
            return bad._replace(step=bad.step + 1)
    return None


def _first_final(slices: Arrays, stage: str) -> NotFinite | None:
    """The earliest one among the final observations of truncated episodes, where they are at hand."""
    truncated = slices["truncated"]
    if "final_obs" not in slices or not truncated.any():
        return None
    bad = _first(slices["final_obs"][truncated][:, None], stage)
    if bad is None:
        return None
    step, env = np.argwhere(truncated)[bad.step].tolist()
    return bad._replace(step=step, env=env)


def _first(values: NDArray[np.generic], stage: str) -> NotFinite | None:
    """The earliest row [T, K, ...] with a value that is not finite; its step is the row."""
    if not np.issubdtype(values.dtype, np.floating) or np.isfinite(values).all():
        return None
    step, env, *rest = np.argwhere(~np.isfinite(values))[0].tolist()
    return NotFinite(stage, env, step, rest[0] if rest else None, str(values[(step, env, *rest)]))


def first_in_parameters(network: NetworkSpec, flat: NDArray[np.float32]) -> str:
    """The first one among the parameters [P], such as "actor.0.weight[3, 1] is nan"; empty where all are finite."""
    if np.isfinite(flat).all():
        return ""
    name, array = next(item for item in to_named(network, flat).items() if not np.isfinite(item[1]).all())
    place = tuple(np.argwhere(~np.isfinite(array))[0].tolist())
    return f"{name}{list(place)} is {array[place]}"
