"""The DiscoRL update rule: from the agent's outputs on a batch to targets and the loss. Pure functions of tensors.

It neither runs the agent nor changes it. The costs are those that the meta-network was trained with: 1 for all but q.
Source: Oh et al. 2025.

Shapes: T transitions, B trajectories, A actions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ddp_ppo.config.settings import Config
from ddp_ppo.learners.disco.batch import BothHeads, TakenHeads, Trajectories
from ddp_ppo.learners.disco.meta_network import MetaNetwork, RnnState, Targets
from ddp_ppo.learners.disco.values import (
    Moments,
    Values,
    estimate,
    fresh_moments,
    normalize,
    signed_hyperbolic,
    two_hot,
    updated,
)

Q_COST = 0.2


class RuleState(NamedTuple):
    """What the rule carries from update to update over the agent's whole life; the same on all learners."""

    rnn: RnnState
    moments: Moments  # [2]: of adv and of q_td


class LossTerms(NamedTuple):
    """Terms of the loss of each step [T, B], without costs and mask."""

    pi: Tensor
    y: Tensor
    z: Tensor
    aux: Tensor
    q: Tensor


def birth(meta: MetaNetwork) -> RuleState:
    """The state before the first update."""
    return RuleState(meta.birth(), fresh_moments(2, meta.device))


@torch.no_grad()
def make_targets(
    meta: MetaNetwork,
    state: RuleState,
    *,
    heads: BothHeads,
    batch: Trajectories,
    config: Config,
    average: Callable[[Tensor], None],
) -> tuple[Targets, Values, RuleState]:
    """What to train on in this update, and the state for the next one.

    Args:
        average: replaces a tensor by its mean over all learners; called twice, with 4 and with 16 numbers.
    """
    values = estimate(heads, batch, gamma=config.gamma, retrace_lambda=config.disco.retrace_lambda)
    tracked = torch.stack([values.adv, values.q_td])
    means = torch.stack([tracked.mean((1, 2)), tracked.square().mean((1, 2))])
    average(means)
    moments = updated(state.moments, *means)
    normalized = normalize(values, moments)
    targets, rnn_input = meta(state.rnn.hidden, heads, batch=batch, values=values, normalized=normalized)
    average(rnn_input)
    return targets, values, RuleState(meta.advance(state.rnn, rnn_input), moments)


def losses(agent: TakenHeads, targets: Targets, *, next_logits: Tensor, q_target: Tensor, ended: Tensor) -> LossTerms:
    """KL divergences of the agent's predictions from their targets, and the cross-entropy of q.

    Args:
        agent: with gradients.
        next_logits: [T, B, A] of the policy at the next observations; constants.
        q_target: [T, B] in reward units.
        ended: [T, B] bool; there aux_pi has nothing to predict.
    """
    return LossTerms(
        _kl(targets.pi, agent.logits),
        _kl(targets.y, agent.y),
        _kl(targets.z, agent.z),
        _kl(next_logits.detach(), agent.aux_pi) * ~ended,
        -(two_hot(signed_hyperbolic(q_target)) * agent.q.log_softmax(-1)).sum(-1),
    )


def total_loss(terms: LossTerms, mask: Tensor) -> Tensor:
    """The mean over the steps of the mask [T, B] of what is minimised, a scalar."""
    per_step = terms.pi + terms.y + terms.z + terms.aux + Q_COST * terms.q
    return (per_step * mask).sum() / (mask.sum() + 1e-8)


def _kl(target: Tensor, logits: Tensor) -> Tensor:
    """KL(target || logits) [...] of two categoricals given as logits [..., n]."""
    log_target = target.log_softmax(-1)
    return (log_target.exp() * (log_target - logits.log_softmax(-1))).sum(-1)
