"""What DiscoRL measures: its rows of the table of metrics, in the order of their charts.

All but the last are means over a round's updates; there are none before the replay buffer holds a batch.
"""

from __future__ import annotations

from ddp_ppo.runs.metric_table import ENTROPY, GRAD_NORM, LEARNING_RATE, LOSS, Metric

# fmt: off
DISCO_METRICS: tuple[Metric, ...] = (
    Metric(name=LOSS, question="health", title="Loss", label="of the learner", console="loss",
           doc="what is minimised; its size means little", advice="it jumps"),
    Metric(name="train/td_error", question="health", title="TD error", label="mean",
           doc="how far the targets of the action values lie above them"),
    Metric(name=ENTROPY, question="health", title="Entropy", label="nats", unit="nats", is_compared=True,
           doc="entropy of the policy"),
    Metric(name=GRAD_NORM, question="health", title="Gradient norm", label="before clipping",
           doc="norm of the gradient before clipping", advice="it grows without end"),
    Metric(name=LEARNING_RATE, question="health", title="Learning rate", label="Adam's step size",
           doc="step size of Adam in this round"),
    Metric(name="train/pi_loss", unit="nats", doc="KL divergence of the policy from the target of the rule"),
    Metric(name="train/y_loss", unit="nats", doc="KL divergence of the prediction y from the target of the rule"),
    Metric(name="train/z_loss", unit="nats", doc="KL divergence of the prediction z from the target of the rule"),
    Metric(name="train/aux_loss", unit="nats", doc="KL divergence of the predicted next policy from the next policy"),
    Metric(name="train/q_loss", unit="nats", doc="cross-entropy of the action values, counted 0.2 times in the loss",
           advice="it grows: the scale of the rewards"),
    Metric(name="train/value", doc="mean action value of the batch"),
    Metric(name="train/replay_size", unit="trajectories",
           doc="trajectories in a learner's replay buffer; training starts when they make a batch"),
)
# fmt: on
