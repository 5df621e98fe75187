"""Why an update met a value that is not finite: looks once, afterwards, at all that it was computed from.

Healthy rounds pay nothing for it.

Shapes: T rollout_length, B environments of the learner, N = T * B samples.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddp_ppo.learners.interface import Learner
from ddp_ppo.sampling.finite import NotFinite, first_in_parameters, first_in_rollout
from ddp_ppo.sampling.rollout import Rollout


class Cause(NamedTuple):
    """The first value that was not finite, in words, and its place in the rollout if it has one."""

    words: str
    where: NotFinite | None = None


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
