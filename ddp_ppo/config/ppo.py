"""The settings of PPO alone, and what they must not be together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from ddp_ppo.config.rules import NoEffect, Rule
from ddp_ppo.config.setting import setting

_RULES = (
    Rule(
        ("learning_rate_schedule", "ppo.target_kl"),
        lambda c: c.learning_rate_schedule == "adaptive" and c.ppo.target_kl is None,
        lambda c: "target_kl: learning_rate_schedule: adaptive needs a number here, such as 0.01",
    ),
    Rule(
        ("learning_rate_schedule", "ppo.num_epochs", "ppo.minibatch_size"),
        lambda c: (
            c.learning_rate_schedule == "adaptive"
            and c.ppo.num_epochs == 1
            and c.ppo.minibatch_size >= c.samples_per_round
        ),
        lambda c: (
            "learning_rate_schedule: adaptive steers by the KL of one gradient step after another; a round has one"
        ),
    ),
    Rule(
        ("ppo.update_backend", "conv_channels"),
        lambda c: c.conv_channels and c.ppo.update_backend == "numpy",
        lambda c: "update_backend: numpy has no convolutions (conv_channels); use auto or torch",
    ),
)
_NO_EFFECTS = (
    NoEffect("ppo.recompute_advantages", "ppo.num_epochs", lambda epochs: epochs == 1, "there is no second epoch"),
)


@dataclass(frozen=True, kw_only=True)
class PPOSettings:
    """What PPO reads apart from the general settings.

    Symbols: N samples of one learner and round.
    """

    title: ClassVar[str] = "PPO"
    rules: ClassVar[tuple[Rule, ...]] = _RULES
    no_effects: ClassVar[tuple[NoEffect, ...]] = _NO_EFFECTS

    # fmt: off
    clip_range: float = setting(0.2, above=0, high=1, doc=
        "How far the probability ratio may leave 1 before PPO's clip stops its gradient. Small: careful, slow.")
    value_clip_range: float | None = setting(None, above=0, doc=
        "How far the value loss lets a value leave the rollout's, in units of the scaled return; null does not clip.")
    entropy_coef: float = setting(0.0, low=0, doc=
        "Weight of the entropy bonus. Raise it where exploration stops early; large values keep the policy random.")
    value_coef: float = setting(0.5, low=0, doc=
        "Weight of the value loss. Without gradient clipping Adam all but cancels it.")
    max_grad_norm: float | None = setting(0.5, above=0, doc=
        "Largest norm of a mini-batch's gradient; null does not clip. Small values act like a lower learning rate.")
    num_epochs: int = setting(10, low=1, doc=
        "Passes over a round's samples. More use each sample better, until the policy moves too far (target_kl).")
    minibatch_size: int = setting(64, low=1, doc=
        "Samples of a learner's gradient step; an epoch's last one may be smaller. Above the round's size: one batch.")
    adam_eps: float = setting(1e-5, above=0, doc=
        "Adam's epsilon. Larger damps the step where gradients are tiny.")
    target_kl: float | None = setting(None, above=0, doc=
        "KL from the rollout's policy at which epochs stop, and the adaptive schedule's target; null never stops.")
    recompute_advantages: bool = setting(False, doc=
        "Computes values and advantages again before each later epoch: better targets for one more critic pass.")
    normalize_advantages: bool = setting(True, doc=
        "Standardises advantages over the round of a learner.")
    update_backend: Literal["auto", "numpy", "torch"] = setting("auto", doc=
        "What computes gradient steps; auto takes NumPy on the CPU where it covers the policy, CUDA graphs on a GPU. "
        "torch is the reference, operator by operator.")
    # fmt: on

    def minibatches_per_epoch(self, num_samples: int) -> int:
        """Gradient steps of one epoch over N samples; every sample is in exactly one of them."""
        return -(-num_samples // self.minibatch_size)

    def last_minibatch_size(self, num_samples: int) -> int:
        """Samples in the last mini-batch of an epoch, the only one that may be smaller."""
        return num_samples - (self.minibatches_per_epoch(num_samples) - 1) * self.minibatch_size

    def warnings(self, num_samples: int) -> list[str]:
        """Remarks about settings that work on N samples a round but may not be meant."""
        start = f"minibatch_size: {self.minibatch_size} "
        if self.minibatch_size > num_samples:
            return [
                f"{start}is more than the {num_samples} samples of a round: each epoch is one batch of {num_samples}"
            ]
        if num_samples % self.minibatch_size:
            last = self.last_minibatch_size(num_samples)
            return [f"{start}does not divide the {num_samples} samples of a round: the last has {last}"]
        return []
