"""Why a run has failed: above all, why a round met a value that is not finite.

For that it looks once, afterwards, at all that the round was computed from.

Healthy rounds pay for the check of their parameters alone.

Shapes: T rollout_length, B environments of the learner, N = T * B samples, P parameters.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddp_ppo.distributed.group import CollectiveError
from ddp_ppo.learners.interface import Learner
from ddp_ppo.protocols import FloatArray
from ddp_ppo.sampling.actor_pool import ActorError
from ddp_ppo.sampling.finite import NonFiniteError, NotFinite, first_in_parameters, first_in_rollout
from ddp_ppo.sampling.rollout import Rollout
from ddp_ppo.training.plan import Plan
from ddp_ppo.training.recorder import FaultRecorder
from ddp_ppo.training.resume import RunState
from ddp_ppo.training.sampler import Sampler
from ddp_ppo.training.sync import ConsistencyError

_EVENTS = {  # what a failure is called in events.jsonl
    ActorError: "actor_error",
    CollectiveError: "collective_error",
    ConsistencyError: "consistency_error",
    NonFiniteError: "non_finite",
}


class Cause(NamedTuple):
    """The first value that was not finite, in words, and its place in the rollout if it has one."""

    words: str
    where: NotFinite | None = None


class Diagnosis:
    """Names the first value that is not finite and leaves evidence of it, from which it can be replayed."""

    def __init__(self, plan: Plan, learner: Learner, *, sampler: Sampler, recorder: FaultRecorder) -> None:
        self._plan, self._learner = plan, learner
        self._sampler, self._recorder = sampler, recorder

    def note(self, error: BaseException, done: RunState) -> str:
        """Notes a failure that ends the run as an event; the first line of it."""
        kind = _EVENTS.get(type(error), "error")
        headline = str(error).partition("\n")[0] if kind != "error" else repr(error)
        self._recorder.event(kind, done.round, headline, is_shown=False)
        return headline

    def require_finite(self, parameters: FloatArray, num_done: int) -> None:
        """Raises NonFiniteError where one of the parameters [P] after so many rounds is not finite."""
        if bad := first_in_parameters(self._plan.network, parameters):
            raise self._error(f"after round {num_done}: the parameter {bad}")

    def of_actor(self, error: ActorError, done: RunState) -> None:
        """Leaves evidence where an actor has failed because of such a value."""
        if error.where is not None and error.state is not None:
            slices = self._sampler.slices_of(error.job.actor_id, done.round)
            self._recorder.evidence(error.state, slices, error.where, done.round)

    def of_update(self, error: NonFiniteError, rollout: Rollout, done: RunState) -> NonFiniteError:
        """The error of the round after `done`, with the first cause of what its update has seen."""
        is_mean = not self._learner.is_drifting and self._plan.topology.num_learners > 1
        note = "; it is the mean of all learners, the cause may lie with another one" if is_mean else ""
        words, where = find_cause(self._learner, rollout, f"{error}{note}")
        if where is not None:
            own = self._plan.topology.slices
            actor_id = next(i for i, one in enumerate(own) if where.env < one.stop)
            words = f"actor {actor_id}: {words}"
            state, slices = done.own["actors"][actor_id], self._sampler.slices_of(actor_id, done.round)
            where = where._replace(env=where.env - own[actor_id].start)
            self._recorder.evidence(state, slices, where._asdict(), done.round)
        return self._error(f"round {done.round + 1}: {words}")

    def _error(self, what: str) -> NonFiniteError:
        return NonFiniteError(f"rank {self._plan.topology.rank}, {what}; no checkpoint holds it")


def find_cause(learner: Learner, rollout: Rollout, seen: str) -> Cause:
    """The first cause in the order of computation: rollout, parameters, loss of a sample, and else what was `seen`."""
    bad = first_in_rollout(rollout.arrays)
    if bad is not None:
        return Cause(bad.words(), bad)
    if parameter := first_in_parameters(learner.network, learner.acting_parameters()):
        return Cause(f"the parameter {parameter}")
    num_envs = rollout["reward"].shape[1]
    losses = {name: loss.cpu().numpy().reshape(-1, num_envs) for name, loss in learner.sample_losses(rollout).items()}
    for name, loss in losses.items():
        if not np.isfinite(loss).all():
            step, env = np.argwhere(~np.isfinite(loss))[0].tolist()
            found = NotFinite(name, env, step + 1, None, str(loss[step, env]))
            return Cause(found.words(), found)
    if not losses:
        return Cause(seen)
    name, loss = max(losses.items(), key=lambda item: float(np.abs(item[1]).max()))
    step, env = np.unravel_index(np.abs(loss).argmax(), loss.shape)
    largest = f"the largest {name} is {loss[step, env]:.3g}, of environment {env} in step {step + 1} of the rollout"
    return Cause(f"{seen}; {largest}")
