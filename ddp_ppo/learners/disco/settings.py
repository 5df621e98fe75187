"""What can be set of a DiscoRL learner; the defaults are those of the published example.

What the weights fix (the loss costs, the sizes of y and z, the support of q, Adam's coefficients) stands where it is
used. Torch-free.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class DiscoSettings:
    """Plain values.

    Attributes:
        learning_rate: of Adam; 1e-2 suits small tasks such as CartPole, where 1e-3 takes several times as long.
        learning_rate_schedule: "constant" as published, or "linear" down to 0 at the end of the run.
        gamma: discount of the values, in [0, 1].
        retrace_lambda: in [0, 1]; how far returns are followed before values take over.
        batch_size: trajectories of one update.
        replay_capacity: trajectories kept to sample from; 0 trains on each rollout once, as it comes.
        updates_per_round: updates after each rollout.
        seed: of the sampling from the replay.
    """

    learning_rate: float = 1e-2
    learning_rate_schedule: Literal["constant", "linear"] = "constant"
    gamma: float = 0.997
    retrace_lambda: float = 0.95
    batch_size: int = 64
    replay_capacity: int = 1024
    updates_per_round: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if 0 < self.replay_capacity < self.batch_size:
            raise ValueError(
                f"replay_capacity {self.replay_capacity} must be 0 or at least batch_size {self.batch_size}: "
                "training starts once the replay holds a batch"
            )
