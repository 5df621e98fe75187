"""Saved states of environments taken apart, one for each environment, and put together for other shares of them.

This works where every array and list of a state has one row for each environment, which holds for the package's own
backends. What a user's vectorised class saves may have any form: it stays in one piece.

Shapes: K environments of one saved state, n tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ddp_ppo.protocols import PlainState

_OF_A_BACKEND = {"elapsed", "num_steps", "obs"}  # in what GymnasiumEnv and MujocoEnv save
_OF_TASKS = {"parts", "open_return"}  # what MixedEnv saves


def split_state(state: PlainState, envs: range, num_tasks: int = 1) -> list[PlainState] | None:
    """The states of single environments, which a learner calls `envs`; None if this state cannot be taken apart."""
    if state.keys() == _OF_TASKS:
        return _split_tasks(state, envs, num_tasks)
    rows = {name: value for name, value in state.items() if _has_rows(value)}
    if not state.keys() >= _OF_A_BACKEND or any(len(value) != len(envs) for value in rows.values()):
        return None
    return [state | {name: value[i : i + 1] for name, value in rows.items()} for i in range(len(envs))]


def join_states(states: Sequence[PlainState], envs: range, num_tasks: int = 1) -> PlainState:
    """What environments save together that a learner calls `envs`, from what `split_state` returns for each."""
    if states[0].keys() == _OF_TASKS:
        parts = [[states[i]["parts"][0] for i in own] for own in _turns(envs, num_tasks)]
        return {
            "parts": [_joined(part) for part in parts],
            "open_return": np.concatenate([state["open_return"] for state in states]),
        }
    return _joined(states)


def _split_tasks(state: PlainState, envs: range, num_tasks: int) -> list[PlainState] | None:
    found: dict[int, PlainState] = {}
    for own, part in zip(_turns(envs, num_tasks), state["parts"], strict=True):
        singles = split_state(part, range(len(own)))
        if singles is None:
            return None
        for i, single in zip(own, singles, strict=True):
            found[i] = {"parts": [single], "open_return": state["open_return"][i : i + 1]}
    return [found[i] for i in range(len(envs))]


def _turns(envs: range, num_tasks: int) -> list[range]:
    """Which of these environments each task has that has any: environment i of a learner plays task i mod n."""
    turns = [range((turn - envs.start) % num_tasks, len(envs), num_tasks) for turn in range(num_tasks)]
    return [own for own in turns if own]


def _joined(states: Sequence[PlainState]) -> PlainState:
    joined: PlainState = {}
    for name, first in states[0].items():
        values = [state[name] for state in states]
        if isinstance(first, list):
            joined[name] = [row for value in values for row in value]
        else:
            joined[name] = np.concatenate(values) if _has_rows(first) else first
    return joined


def _has_rows(value: Any) -> bool:
    return isinstance(value, (list, np.ndarray))
