"""The learners that a run can choose from, as a table; a further algorithm is one more row.

What the methods mean is said in `learner_kind.LearnerKind`.

Shapes: P parameters of the network that acts.
"""

from __future__ import annotations

from ddp_ppo.learners.disco.kind import DiscoKind
from ddp_ppo.learners.interface import LearnerKind
from ddp_ppo.learners.ppo.kind import PPOKind

LEARNERS: dict[str, LearnerKind] = {"ppo": PPOKind(), "disco": DiscoKind()}  # the choices of the setting `learner`
