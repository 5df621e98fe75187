"""What an actor adds to its part of a rollout after the last step, for each kind of learner. Torch-free.

A learner names one of these functions; the actor calls it with its own policy and its own columns.

Shapes: T rollout_length, K environments of the actor, D observation size.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.gae import compute_gae
from ddp_ppo.protocols import FloatArray
from ddp_ppo.rollout import Arrays

REWARD_CLIP = 10.0  # scaled rewards are held inside +-10


class RolloutPolicy(Protocol):
    """What annotating needs of the policy that acted."""

    outputs: FloatArray

    def logp(self, act: NDArray[Any]) -> FloatArray: ...

    def values(self, obs: FloatArray) -> FloatArray: ...


class Discounting(NamedTuple):
    """How rewards become returns; reward_scale is 1 / std of the discounted return, or 1 without reward scaling."""

    gamma: float
    gae_lambda: float
    reward_scale: float
    reward_clip: float


def annotate_ppo(policy: RolloutPolicy, columns: Arrays, discounting: Discounting) -> None:
    """Fills logp, value, final_value, adv and ret of one actor's columns [T(+1), K, ...], in place."""
    num_steps, num_envs = columns["reward"].shape
    obs = columns["obs"].reshape((num_steps + 1) * num_envs, -1)
    truncated = columns["truncated"]
    value = policy.values(obs).reshape(num_steps + 1, num_envs)
    final_value = np.zeros((num_steps, num_envs), np.float32)
    if truncated.any():
        final_value[truncated] = policy.values(columns["final_obs"][truncated])
    columns["logp"][:] = policy.logp(columns["act"])
    columns["value"][:] = value
    columns["final_value"][:] = final_value
    columns["adv"][:], columns["ret"][:] = compute_gae(
        scale_reward(columns["reward"], discounting.reward_scale, discounting.reward_clip),
        value,
        final_value,
        columns["terminated"],
        truncated,
        gamma=discounting.gamma,
        gae_lambda=discounting.gae_lambda,
    )


def annotate_disco(policy: RolloutPolicy, columns: Arrays, discounting: Discounting) -> None:
    """Fills logits [T, K, A] of the policy that acted; returns are the learner's to estimate."""
    columns["logits"][:] = policy.outputs


def scale_reward(reward: Any, scale: float, clip: float) -> Any:
    """clip(reward * scale, -clip, clip) for NumPy arrays and torch tensors."""
    return (reward * scale).clip(-clip, clip)
