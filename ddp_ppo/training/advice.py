"""What is unwise about a configuration before it has run: for this machine, these images, the range of these actions.

Each piece of advice is a note that stops nothing; settings that cannot work at all are errors of plan.py and config.py.
"""

from __future__ import annotations

import math

import numpy as np

from ddp_ppo.config.settings import Config
from ddp_ppo.distributed.topology import TrainingTopology
from ddp_ppo.machine import this_machine
from ddp_ppo.protocols import EnvSpec

_SMALLEST_IMAGE = 8  # rows or columns; smaller ones are no pictures
_WELL_INSIDE = 0.75  # of half an action's range that 0 may be away from its middle
_NARROW, _WIDE = 0.1, 2.0  # standard deviations of the first actions, in halves of the range; MuJoCo's: 0.18 to 0.92


def machine_advice(topology: TrainingTopology) -> list[str]:
    """What is clearly wrong for this machine."""
    num_actors = topology.num_actors * max(1, topology.num_learners // topology.num_nodes)
    num_cores = this_machine().num_cores
    cores = "1 core" if num_cores == 1 else f"{num_cores} cores"
    if num_actors > 2 * num_cores:
        return [
            f"{num_actors} actors share {cores} here; fewer would be faster, with the same result: num_actors: auto"
        ]
    return []


def image_advice(config: Config, env: EnvSpec) -> list[str]:
    """What is to be said where images are flattened."""
    if not env.image or config.conv_channels or sorted(env.image)[1] < _SMALLEST_IMAGE:
        return []
    return [f"images {list(env.image)} are flattened for an MLP; conv_channels: [16, 32] would read them as images"]


def action_advice(config: Config, env: EnvSpec) -> list[str]:
    """What is to be said where an untrained policy, 0 +- exp(init_log_std), does not suit the range of an action."""
    low, high = env.action.low.astype(np.float64), env.action.high.astype(np.float64)
    half, std = (high - low) / 2, math.exp(config.init_log_std)
    known = np.isfinite(half) & (half > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        aside, share = np.abs(high + low) / 2 / half, std / half
    rescale = "let it be [-1, 1] and scale inside the environment (gymnasium.wrappers.RescaleAction)"
    first = f"the first policy acts around 0 +- {std:.2g}"
    if (known & (aside > _WELL_INSIDE)).any():
        index = int(np.flatnonzero(known & (aside > _WELL_INSIDE))[0])
        return [f"{_range(env, index)}: {first}, half of it beyond a limit; {rescale}"]
    unsuited = known & ((share < _NARROW) | (share > _WIDE))
    if not unsuited.any():
        return []
    index = int(np.flatnonzero(unsuited)[0])
    what = "most of it beyond the limits" if share[index] > _WIDE else "a small part of it"
    return [f"{_range(env, index)}: {first}, {what}; {rescale}, or init_log_std near {math.log(half[index] / 2):.1f}"]


def _range(env: EnvSpec, index: int) -> str:
    return f"the range of action {index} is {env.action.low[index]:g} .. {env.action.high[index]:g}"
