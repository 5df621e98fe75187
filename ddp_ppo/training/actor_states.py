"""What each actor of a resumed run starts from: the states of a checkpoint's actors, shared out again if need be.

A run may go on with other numbers of actors or learners. Environments then go on in mid-episode one by one, if their
states can be taken apart; otherwise new episodes start, with seeds that depend on the round.

Shapes: B environments of a learner, K of an actor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from ddp_ppo.envs.split import join_states, split_state
from ddp_ppo.learners.interface import LearnerJob
from ddp_ppo.protocols import PlainState

_PER_ENV = ("episode_return", "episode_length", "discounted_return", "policy_state")
_AS_BEFORE = "episodes start again, and the run will not equal an unbroken one"


def states_for(content: Mapping[str, Any], job: LearnerJob) -> tuple[list[PlainState], str]:
    """The states of this learner's actors in their order, and what a person should know; empty if nothing."""
    sizes, num_rounds = job.topology.envs_of_actors, int(content["round"])
    fresh = [_new_episodes(size, num_rounds) for size in sizes]
    saved = [
        {"generators": None, "num_rounds": num_rounds, **state} for rank in content["ranks"] for state in rank["actors"]
    ]
    num_envs, num_tasks = _num_envs(saved), len(job.config.tasks)
    has_other_envs = num_envs != job.topology.num_envs * job.topology.num_learners
    has_other_tasks = num_tasks > 1 and len(content["ranks"]) != job.topology.num_learners
    if has_other_envs or has_other_tasks or content["env"]["backend"] != job.env.backend:
        return fresh, f"the checkpoint has other environments or another backend; {_AS_BEFORE}"
    if any(state["env"] is None for state in saved):
        words = f"this environment cannot be saved (no get_state and set_state): {_AS_BEFORE}"
        return _same_shares(saved, job) or fresh, words
    if (same := _same_shares(saved, job)) is not None:
        return same, ""
    singles = _singles(content["ranks"], num_tasks)
    if singles is None:
        return fresh, f"other actors than before share the environments, whose saved state is one piece: {_AS_BEFORE}"
    own = singles[job.topology.rank * job.topology.num_envs :]
    words = "other actors than before: the global random generators of their processes start new streams"
    return [_joined(own[one], one, num_rounds, num_tasks) for one in job.topology.slices], words


def _new_episodes(num_envs: int, num_rounds: int) -> PlainState:
    zeros = {name: np.zeros(num_envs) for name in _PER_ENV[:-1]}
    return {"env": None, "generators": None, "num_rounds": num_rounds, **zeros}


def _num_envs(states: Sequence[PlainState]) -> int:
    return sum(len(state["episode_return"]) for state in states)


def _same_shares(saved: Sequence[PlainState], job: LearnerJob) -> list[PlainState] | None:
    """The states as they were saved, if each actor of this learner has just the environments that an actor had."""
    ends = [0, *accumulate(len(state["episode_return"]) for state in saved)]
    by_place = dict(zip(pairwise(ends), saved, strict=True))
    first = job.topology.rank * job.topology.num_envs
    places = [(first + own.start, first + own.stop) for own in job.topology.slices]
    return [by_place[place] for place in places] if all(place in by_place for place in places) else None


def _singles(ranks: Sequence[Mapping[str, Any]], num_tasks: int) -> list[PlainState] | None:
    """The states of single environments, of all learners in their order; None if some cannot be taken apart."""
    found: list[PlainState] = []
    for rank in ranks:
        start = 0
        for state in rank["actors"]:
            envs = range(start, start := start + len(state["episode_return"]))
            singles = split_state(state["env"], envs, num_tasks)
            if singles is None:
                return None
            kept = [name for name in _PER_ENV if name in state]
            found += [
                {"env": single, **{name: state[name][i : i + 1] for name in kept}} for i, single in enumerate(singles)
            ]
    return found


def _joined(singles: Sequence[PlainState], own: slice, num_rounds: int, num_tasks: int) -> PlainState:
    env = join_states([single["env"] for single in singles], range(own.start, own.stop), num_tasks)
    rows = {name: np.concatenate([single[name] for single in singles]) for name in singles[0] if name != "env"}
    return {"env": env, "generators": None, "num_rounds": num_rounds, **rows}
