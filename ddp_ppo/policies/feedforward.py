"""What every policy without a memory does alike. Torch-free.

Shapes: T rollout_length, K environments, M rows, D observation size.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ddp_ppo.protocols import Arrays, FloatArray

Values = Callable[[FloatArray], FloatArray]


def rollout_values(values: Values, slices: Arrays, final_values: Values | None = None) -> tuple[FloatArray, FloatArray]:
    """Values of a rollout in one batch; see `Policy.rollout_values`.

    Args:
        values: maps raw observations [M, D] to the critic's values [M].
        final_values: the same for last observations, whose number M varies; None is `values`.
    """
    num_steps, num_envs = slices["truncated"].shape
    value = values(slices["obs"].reshape((num_steps + 1) * num_envs, -1)).reshape(num_steps + 1, num_envs)
    truncated = slices["truncated"]
    final_value = np.zeros((num_steps, num_envs), np.float32)
    if truncated.any():
        final_value[truncated] = (final_values or values)(slices["final_obs"][truncated])
    return value, final_value
