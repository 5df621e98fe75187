"""What PPO measures: its rows of the table of metrics, in the order of their charts."""

from __future__ import annotations

from ddp_ppo.runs.metric_table import (
    ACTION_STD,
    CLIP_FRACTION,
    ENTROPY,
    EXPLAINED_VARIANCE,
    GRAD_NORM,
    KL,
    LEARNING_RATE,
    VALUE_LOSS,
    Metric,
)

# fmt: off
PPO_METRICS: tuple[Metric, ...] = (
    Metric(name=KL, question="health", title="KL divergence", label="mean of the last epoch", mark="target_kl",
           console="kl", is_compared=True, unit="nats",
           doc="KL divergence from the policy that sampled, mean over the mini-batches of the last epoch, each before "
               "its own step (estimator k3)",
           advice="above 0.05: lower `learning_rate` or `num_epochs`, or set `target_kl`"),
    Metric(name=CLIP_FRACTION, question="health", title="Clip fraction", label="share of samples outside",
           doc="share of the samples whose ratio left the clip range, mean over the epochs",
           advice="near 0: updates are timid; above 0.4: too bold"),
    Metric(name=VALUE_LOSS, question="health", title="Value loss", label="squared error", is_log=True, is_compared=True,
           doc="squared error of the critic in units of the scaled return, mean over samples and epochs",
           advice="it jumps: reward scale, learning rate"),
    Metric(name=EXPLAINED_VARIANCE, question="health", title="Explained variance", label="of the critic",
           can_be_empty=True, doc="1 - var(return - value) / var(return) of the critic before the update",
           advice="below 0: the critic is worse than a constant"),
    Metric(name="train/policy_loss", question="health", title="Policy loss", label="clipped surrogate",
           doc="clipped surrogate, mean over samples and epochs; its size means little", advice="it jumps"),
    Metric(name=ENTROPY, question="health", title="Entropy", label="nats", unit="nats", is_compared=True,
           doc="entropy of the policy", advice="it falls early: raise `entropy_coef`"),
    Metric(name=ACTION_STD, question="health", title="Action std", label="mean over dimensions", can_be_empty=True,
           doc="standard deviation of the Gaussian policy, mean over action dimensions",
           advice="it collapses or explodes"),
    Metric(name=GRAD_NORM, question="health", title="Gradient norm", label="before clipping",
           doc="norm of the gradient before clipping, mean over mini-batches", advice="it grows without end"),
    Metric(name=LEARNING_RATE, question="health", title="Learning rate", label="Adam's step size",
           doc="step size of Adam in this round"),
    Metric(name="train/epochs", has_extremes=True, doc="epochs of this round; fewer than `num_epochs` after a KL stop",
           advice="`train/epochs_min` and `train/epochs_max` far apart: learners' data differ, raise `num_envs`"),
)
# fmt: on
