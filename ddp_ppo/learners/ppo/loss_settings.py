"""What one gradient step of PPO is told, apart from its samples. Torch-free, so that an actor can read it."""

from __future__ import annotations

from dataclasses import dataclass

from ddp_ppo.config.settings import Config

ADAM_BETAS = (0.9, 0.999)


@dataclass(frozen=True, kw_only=True)
class LossSettings:
    """The settings of one gradient step; None switches a clip off."""

    clip_range: float
    value_clip_range: float | None
    entropy_coef: float
    value_coef: float
    max_grad_norm: float | None
    adam_eps: float


def loss_settings(config: Config) -> LossSettings:
    """The part of a configuration that a gradient step reads."""
    return LossSettings(
        clip_range=config.ppo.clip_range,
        value_clip_range=config.ppo.value_clip_range,
        entropy_coef=config.ppo.entropy_coef,
        value_coef=config.ppo.value_coef,
        max_grad_norm=config.ppo.max_grad_norm,
        adam_eps=config.ppo.adam_eps,
    )
