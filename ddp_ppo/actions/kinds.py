"""The kinds of action spaces and of distributions that there are, as tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ddp_ppo.actions.action import Action, Head
from ddp_ppo.actions.box import BoxAction, GaussianHead
from ddp_ppo.actions.discrete import CategoricalHead, DiscreteAction

# By `EnvSpec.action_kind`: from the fields of an `EnvSpec` to its action.
ACTIONS: dict[str, Callable[[Mapping[str, Any]], Action]] = {
    "box": lambda fields: BoxAction(fields["action_low"], fields["action_high"]),
    "discrete": lambda fields: DiscreteAction(fields["action_size"], fields["action_start"]),
}
# By `NetworkSpec.head`: from the number of the actor's outputs to the distribution.
HEADS: dict[str, Callable[[int], Head]] = {"gaussian": GaussianHead, "categorical": CategoricalHead}


def action_of(fields: Mapping[str, Any]) -> Action:
    """The action space that the fields of an `EnvSpec` describe.

    Raises:
        ValueError: there is no such kind.
    """
    kind = fields["action_kind"]
    if kind not in ACTIONS:
        raise ValueError(f"action_kind: {kind!r} is not one of {', '.join(ACTIONS)}")
    return ACTIONS[kind](fields)
