"""What the parts of the DiscoRL rule hand to each other: replayed trajectories and the agent's outputs on them.

Shapes: T transitions, B trajectories, A actions, D observation size; a bootstrap row makes T + 1. All outputs are
logits of categorical distributions.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

NUM_PREDICTIONS = 600  # categories of y and of z


class Trajectories(NamedTuple):
    """T consecutive transitions in B environments, possibly of several episodes each."""

    obs: Tensor  # [T + 1, B, D] raw: float32, or bytes
    act: Tensor  # [T, B] int64
    logits: Tensor  # [T, B, A] of the policy that acted
    reward: Tensor  # [T, B] what followed act
    ended: Tensor  # [T, B] bool: act ended the episode
    mask: Tensor  # [T, B] bool: has a weight in the loss; False where the step before ended an episode


class Heads(NamedTuple):
    """What the meta-network reads of an agent."""

    logits: Tensor  # [T + 1, B, A] policy
    y: Tensor  # [T + 1, B, 600] prediction for the observation
    z: Tensor  # [T + 1, B, A, 600] prediction for each action
    q: Tensor  # [T + 1, B, A, 601] value of each action, over bins


class BothHeads(NamedTuple):
    """The same of the online network and of the target network, whose parameters follow the online ones slowly."""

    online: Heads
    target: Heads


class TakenHeads(NamedTuple):
    """What the loss trains of an agent: of what belongs to an action, the part of the taken one."""

    logits: Tensor  # [T, B, A]
    y: Tensor  # [T, B, 600]
    z: Tensor  # [T, B, 600]
    q: Tensor  # [T, B, 601]
    aux_pi: Tensor  # [T, B, A] policy expected at the next observation
