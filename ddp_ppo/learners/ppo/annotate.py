"""What an actor adds to its slice of a rollout after the last step, for PPO: values, log-probabilities, advantages.

Torch-free. Shapes: T rollout_length, K environments of the actor, D observation size.
"""

from __future__ import annotations

from ddp_ppo.maths.gae import compute_gae
from ddp_ppo.protocols import Arrays, Policy
from ddp_ppo.sampling.rollout import Discounting, scale_reward


def annotate_ppo(policy: Policy, slices: Arrays, discounting: Discounting) -> None:
    """Fills logp, value, final_value, adv and ret of one actor's slices [T(+1), K, ...], in place."""
    value, final_value = policy.rollout_values(slices)
    slices["logp"][:] = policy.logp(slices["act"])
    slices["value"][:] = value
    slices["final_value"][:] = final_value
    slices["adv"][:], slices["ret"][:] = compute_gae(
        scale_reward(slices["reward"], discounting.reward_scale, discounting.reward_clip),
        value,
        final_value,
        slices["terminated"],
        slices["truncated"],
        gamma=discounting.gamma,
        gae_lambda=discounting.gae_lambda,
    )
