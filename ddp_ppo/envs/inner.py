"""From a batch of environments to one of those in it, as Gymnasium knows it."""

from __future__ import annotations

from typing import Any

import gymnasium

from ddp_ppo.envs.discrete_actions import DiscreteActions
from ddp_ppo.envs.multi_task import MixedEnv
from ddp_ppo.errors import FAULTS
from ddp_ppo.protocols import BatchEnv


def innermost(env: BatchEnv, index: int) -> tuple[BatchEnv, int]:
    """The batch that environment `index` really belongs to, and its index there."""
    while isinstance(env, DiscreteActions | MixedEnv):
        env, index = (env.inner, index) if isinstance(env, DiscreteActions) else env.locate(index)
    return env, index


def gymnasium_env(env: BatchEnv, index: int) -> Any | None:
    """Environment `index` as Gymnasium knows it; None for a vectorised class that cannot give one."""
    try:
        one = getattr(env, "gymnasium_env", lambda index: None)(index)
    except FAULTS:  # of a user's class, where the name stands for something else
        return None
    return one if isinstance(one, gymnasium.Env) else None
