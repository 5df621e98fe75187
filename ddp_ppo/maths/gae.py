"""Generalised advantage estimation (Schulman et al. 2016, eq. 16) without a Python loop over time.

One function serves NumPy arrays and torch tensors: it uses only what both share. Torch-free.

Shapes: T rollout_length, B environments.
"""

from __future__ import annotations

from typing import Any

Array = Any  # numpy.ndarray or torch.Tensor, the same for all arguments


def compute_gae(
    reward: Array,
    value: Array,
    final_value: Array,
    terminated: Array,
    truncated: Array,
    *,
    gamma: float,
    gae_lambda: float,
) -> tuple[Array, Array]:
    """Advantages and value targets of one rollout, episode boundaries respected.

    A terminated step bootstraps with 0, a truncated one with the value of the observation before the reset, every
    other one with the next row's value; both kinds of end cut the recursion, and terminated wins where both are set.

    Args:
        reward: [T, B] floating point.
        value: [T + 1, B]; the last row belongs to the observation after the rollout.
        final_value: [T, B]; read only where an episode was truncated, anything (NaN too) elsewhere.
        terminated, truncated: [T, B] flags.
        gamma: discount in [0, 1].
        gae_lambda: in [0, 1]; 0 is the one-step TD error, 1 the Monte Carlo return.

    Returns:
        advantages [T, B] and returns [T, B] = advantages + value[:-1].
    """
    terminated = terminated != 0
    truncated = truncated != 0
    next_value = value[1:] * 1.0
    next_value[truncated] = final_value[truncated]
    next_value[terminated] = 0.0
    advantage = reward + gamma * next_value - value[:-1]
    decay = advantage * 0.0 + gamma * gae_lambda
    decay[terminated | truncated] = 0.0
    accumulate_backwards(advantage, decay)
    return advantage, advantage + value[:-1]


def accumulate_backwards(total: Any, decay: Any) -> None:
    """Solves total[t] += decay[t] * total[t + 1] for all t, from the end on, in place; decay is used up.

    Doubles the step instead of looping over T: after the pass with step s total[t] covers the 2s steps from t on, and
    decay[t] is the weight of what follows them. NumPy arrays or torch tensors [T, ...]; reversed views run forwards.
    """
    step, length = 1, total.shape[0]
    while step < length:
        total[:-step] = total[:-step] + decay[:-step] * total[step:]
        decay[:-step] = decay[:-step] * decay[step:]
        step *= 2
