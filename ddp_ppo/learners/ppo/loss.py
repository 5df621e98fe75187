"""The PPO loss in torch (Schulman et al. 2017, eq. 7 and 9): the definition that every faster update must equal.

Shapes: N samples of a round, n samples of a mini-batch, D observation size, A action size.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ddp_ppo.learners.ppo.loss_settings import LossSettings
from ddp_ppo.maths.distributions import LOG_RATIO_MAX
from ddp_ppo.policies.torch_policy import ActorCritic


class Batch(NamedTuple):
    """The samples of one round on the learner's device."""

    obs: Tensor  # [N, D] as `ActorCritic.stored` gives them: normalised float32, or raw bytes
    act: Tensor  # [N, A] float32 or [N] int64
    logp: Tensor  # [N] of the policy that sampled
    adv: Tensor  # [N] standardised
    ret: Tensor  # [N] value targets
    value: Tensor  # [N] values when sampled


class SampleLosses(NamedTuple):
    """Terms of the PPO loss of each sample [n], unweighted, and the ratio that they come from."""

    policy_loss: Tensor
    value_loss: Tensor
    entropy: Tensor  # [] for a Gaussian, whose entropy does not depend on the observation
    ratio: Tensor
    log_ratio: Tensor


class Losses(NamedTuple):
    """Terms of the PPO loss of one mini-batch: the total, and what is reported of it, all scalars."""

    total: Tensor
    policy_loss: Tensor
    value_loss: Tensor
    entropy: Tensor
    approx_kl: Tensor
    clip_fraction: Tensor


def ppo_loss(policy: ActorCritic, batch: Batch, settings: LossSettings) -> Losses:
    """Means over a mini-batch [n] of the clipped surrogate, the squared value error and the entropy bonus."""
    surrogate, error, entropy, ratio, log_ratio = sample_losses(policy, batch, settings)
    policy_loss, value_loss = surrogate.mean(), error.mean()
    total = policy_loss + settings.value_coef * value_loss - settings.entropy_coef * entropy.mean()
    with torch.no_grad():
        approx_kl = (ratio - 1.0 - log_ratio).mean()  # Schulman's k3 estimator
        clip_fraction = ((ratio - 1.0).abs() > settings.clip_range).float().mean()
    return Losses(total, policy_loss.detach(), value_loss.detach(), entropy.detach().mean(), approx_kl, clip_fraction)


def sample_losses(policy: ActorCritic, batch: Batch, settings: LossSettings) -> SampleLosses:
    """The clipped surrogate, the (optionally clipped) squared value error of each sample [n], the entropy [n] or []."""
    logp, entropy, value = policy.evaluate(policy.seen(batch.obs), batch.act)
    log_ratio = (logp - batch.logp).clamp(-LOG_RATIO_MAX, LOG_RATIO_MAX)
    ratio = log_ratio.exp()
    clipped_ratio = ratio.clamp(1.0 - settings.clip_range, 1.0 + settings.clip_range)
    surrogate = torch.maximum(-batch.adv * ratio, -batch.adv * clipped_ratio)
    error = value_error(value, batch.value, batch.ret, settings.value_clip_range)
    return SampleLosses(surrogate, error, entropy, ratio, log_ratio)


def value_error(value: Tensor, old_value: Tensor, ret: Tensor, clip_range: float | None) -> Tensor:
    """Squared error [n] of the critic, with a clip the larger one of it and of the value held near its old one."""
    error = (value - ret).square()
    if clip_range is None:
        return error
    held = old_value + (value - old_value).clamp(-clip_range, clip_range)
    return torch.maximum(error, (held - ret).square())
