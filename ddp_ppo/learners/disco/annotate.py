"""What an actor adds to its slice of a rollout after the last step, for DiscoRL: the policy's logits. Torch-free.

Shapes: T rollout_length, K environments of the actor, A choices.
"""

from __future__ import annotations

from ddp_ppo.protocols import Arrays, Policy
from ddp_ppo.sampling.rollout import Discounting


def annotate_disco(policy: Policy, slices: Arrays, discounting: Discounting) -> None:
    """Fills logits [T, K, A] of the policy that acted; returns are the learner's to estimate."""
    slices["logits"][:] = policy.outputs
