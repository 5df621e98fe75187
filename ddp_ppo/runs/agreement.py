"""What all learners agree on: the state of each where they are equal, else their average.

Between two syncs learners differ. A checkpoint then holds every learner's own state, to go on from, and under "agreed"
the average: what is evaluated, what a model is made of, and what another number of learners starts from.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

# Of PPO's learners, the only ones that may differ in a checkpoint of an earlier version, which had no key "sync".
_PPO_AVERAGED, _PPO_COUNTED = ("parameters", "exp_avg", "exp_avg_sq"), ("step",)


def average_states(
    states: Sequence[Mapping[str, Any]], *, averaged: Collection[str], counted: Collection[str]
) -> dict[str, Any]:
    """The first learner's state with the mean of all learners under these names, whole numbers under `counted`.

    Means of equal values are these values, to the last bit.
    """
    result = dict(states[0])
    for name in (*averaged, *counted):
        values = [np.asarray(state[name]) for state in states]
        mean = np.mean(values, axis=0, dtype=np.float64)
        result[name] = (np.rint(mean) if name in counted else mean).astype(values[0].dtype)
    return result


def agreed_learner(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state of a learner on which all learners of a checkpoint agree."""
    agreed: Mapping[str, Any] = content.get("agreed") or content["ranks"][0]["learner"]
    return agreed


def with_agreement(content: dict[str, Any]) -> dict[str, Any]:
    """A checkpoint's content with what an earlier version left out: the average of learners that differ."""
    first, *others = (rank["learner"] for rank in content["ranks"])
    if "sync" in content or all(np.array_equal(first["parameters"], other["parameters"]) for other in others):
        return content
    agreed = average_states([first, *others], averaged=_PPO_AVERAGED, counted=_PPO_COUNTED)
    return {**content, "agreed": agreed, "sync": {"rounds_apart": 1}}
