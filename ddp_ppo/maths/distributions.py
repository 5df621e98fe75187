"""Action distributions: a diagonal Gaussian with a state-independent log_std, and a categorical.

They take NumPy arrays and torch tensors alike, so actor and learner use the same formulas. Torch-free.

Shapes: [..., A] parameters and actions, [...] log-probabilities and entropies.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

LOG_STD_MIN, LOG_STD_MAX = -5.0, 2.0  # log_std never leaves this range: exp(-104) is 0 in float32, exp(90) is inf
LOG_RATIO_MAX = 20.0  # |log ratio| is held below: exp(20) is finite, and so are its gradients
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


def prepare_action(
    sampled_action: ArrayLike, action_low: ArrayLike, action_high: ArrayLike
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Splits a sample into what the policy did and what the environment gets.

    Args:
        sampled_action: [..., A] as drawn from the distribution.
        action_low, action_high: [A] bounds, infinite ones allowed.

    Returns:
        policy_action, the raw sample that is stored and whose log-probability counts, and env_action, clipped to the
        bounds, which goes to `env.step` only.
    """
    policy_action = np.asarray(sampled_action)
    env_action = np.clip(policy_action, action_low, action_high).astype(policy_action.dtype, copy=False)
    return policy_action, env_action


def gaussian_logp(act: Any, mean: Any, log_std: Any, std: Any) -> Any:
    """log N(act; mean, diag(std**2)) summed over the action dimensions; std = exp(log_std), both [A]."""
    noise = (act - mean) / std
    return (noise * noise).sum(-1) * -0.5 - (log_std.sum() + log_std.shape[-1] * HALF_LOG_2PI)


def gaussian_entropy(log_std: Any) -> Any:
    """Entropy of the Gaussian, a scalar: it does not depend on the state."""
    return log_std.sum() + log_std.shape[-1] * (0.5 + HALF_LOG_2PI)


def exp(x: Any) -> Any:
    """e to the power of each element."""
    return np.exp(x) if isinstance(x, np.ndarray) else x.exp()


def log_softmax(logits: Any) -> Any:
    """Log-probabilities [..., A] of a categorical with these logits."""
    if not isinstance(logits, np.ndarray):
        return logits.log_softmax(-1)
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def taken(values: Any, act: Any) -> Any:
    """The values [...] of the choices act [...] among those of all choices [..., A]."""
    if isinstance(values, np.ndarray):
        return np.take_along_axis(values, act.astype(np.int64, copy=False)[..., None], axis=-1)[..., 0]
    return values.gather(-1, act.unsqueeze(-1)).squeeze(-1)


def categorical_logp(act: Any, logits: Any) -> Any:
    """log-probability [...] of the choices act [...]."""
    return taken(log_softmax(logits), act)
