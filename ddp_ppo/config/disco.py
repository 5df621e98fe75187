"""The settings of DiscoRL alone, and what they and general settings must not be together.

What the published weights fix (the loss costs, the sizes of y and z, the support of q, Adam's coefficients) stands
where it is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ddp_ppo.config.rules import Rule
from ddp_ppo.config.setting import setting

_RULES = (
    Rule(
        ("learner", "learning_rate_schedule"),
        lambda c: c.learning_rate_schedule == "adaptive",
        lambda c: (
            "learning_rate_schedule: adaptive follows PPO's KL divergence; with learner: disco constant or linear"
        ),
    ),
    Rule(
        ("learner", "hidden_sizes"),
        lambda c: not c.hidden_sizes,
        lambda c: "hidden_sizes: learner: disco needs at least one layer, such as [512, 512]",
    ),
    Rule(
        ("disco.replay_capacity", "disco.batch_size"),
        lambda c: 0 < c.disco.replay_capacity < c.disco.batch_size,
        lambda c: (
            f"disco.replay_capacity: {c.disco.replay_capacity} never holds disco.batch_size: {c.disco.batch_size}; "
            "training starts once the replay buffer holds a batch"
        ),
    ),
)


@dataclass(frozen=True, kw_only=True)
class DiscoSettings:
    """What DiscoRL reads apart from the general settings; the defaults are those of the published example."""

    title: ClassVar[str] = "DiscoRL"
    rules: ClassVar[tuple[Rule, ...]] = _RULES
    unread: ClassVar[tuple[str, ...]] = ("param_sync_interval", "sync_mode", "gae_lambda", "activation", "init_log_std")

    # fmt: off
    weights: str | None = setting(None, is_path=True, expected="a path", doc=
        "DiscoRL's published weights disco_103.npz; null looks at DDP_PPO_DISCO_WEIGHTS, then in the user's cache.")
    batch_size: int = setting(64, low=1, doc=
        "Trajectories of one update, rollout_length steps each. Small: quicker, noisier.")
    replay_capacity: int = setting(1024, low=0, doc=
        "Trajectories that each learner keeps to train on; training starts with a batch. 0 trains on each round once.")
    updates_per_round: int = setting(1, low=1, doc=
        "Updates after each round. More use each step better, for more time.")
    retrace_lambda: float = setting(0.95, low=0, high=1, doc=
        "How far DiscoRL's value targets follow the sampled returns: 0 trusts the values, 1 the returns.")
    # fmt: on
