"""Where a run stands after its whole rounds: what a checkpoint holds, and how a run goes on from one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ddp_ppo.distributed.topology import TrainingTopology
from ddp_ppo.learners.interface import Learner
from ddp_ppo.maths.moments import RmsState
from ddp_ppo.sampling.actor_pool import ActorPool
from ddp_ppo.training.plan import Plan


class Standing(NamedTuple):
    """All that a run goes on from; `own` differs from rank to rank, the rest is the same on all.

    Attributes:
        round, env_steps, elapsed_seconds: done so far.
        obs_rms_state, return_rms_state: the global history.
        best_return, eval_return: best and last mean evaluation return; NaN without one.
        own: this rank's learner and where its actors' environments stand.
    """

    round: int
    env_steps: int
    elapsed_seconds: float
    obs_rms_state: RmsState
    return_rms_state: RmsState
    best_return: float
    eval_return: float
    own: dict[str, Any]

    def content(self, ranks: list[dict[str, Any]]) -> dict[str, Any]:
        """A checkpoint with every rank's `own`, but for the round, which is its name."""
        common = self._asdict()
        del common["round"], common["own"]
        return {**common, "ranks": ranks}


def restore_rank(
    content: dict[str, Any], plan: Plan, learner: Learner, pool: ActorPool, say: Callable[[str], None]
) -> None:
    """Sets one rank's learner and actors to a checkpoint.

    Environments go on in mid-episode where their state was saved for the same number of environments.
    """
    topology, ranks = plan.topology, content["ranks"]
    for note in learner.load_state_dict(_learner_state(content, topology, is_drifting=learner.is_drifting)):
        say(f"note: {note}")
    actors = [state for rank in ranks for state in rank["actors"]]
    first = topology.rank * topology.num_actors
    has_same_shape = len(actors) == topology.num_learners * topology.num_actors and all(
        len(state["episode_return"]) == topology.envs_per_actor for state in actors
    )
    if not has_same_shape or content["env"]["backend"] != plan.env.backend:
        say("note: the checkpoint has other actors, environments or backend; episodes start anew")
        return
    pool.restore(actors[first : first + topology.num_actors])
    if actors[0]["env"] is None:
        say(
            "note: this environment cannot be saved (no get_state and set_state): episodes start anew, and the "
            "run will not equal an unbroken one"
        )


def _learner_state(content: dict[str, Any], topology: TrainingTopology, *, is_drifting: bool) -> dict[str, Any]:
    """What one rank's learner goes on from.

    Learners that differ go on so where they may, and are as many as they were; else all start from their average.
    Learners that agree keep what is their own as far as there are as many; the others have rank 0's.
    """
    ranks, rank = content["ranks"], topology.rank
    if "agreed" in content and not (is_drifting and len(ranks) == topology.num_learners):
        return dict(content["agreed"])
    return dict(ranks[rank if rank < len(ranks) else 0]["learner"])


def is_finite(ranks: list[dict[str, Any]]) -> bool:
    """Whether all that every rank's learner goes on from is finite."""
    states = (np.asarray(value) for rank in ranks for value in rank["learner"].values())
    return all(np.isfinite(state).all() for state in states if state.dtype.kind == "f")
