"""Mean and variance of batches, and how those of disjoint batches are merged (Chan, Golub and LeVeque 1979).

A state is {"mean": float64 [D], "var": float64 [D] (population), "count": float}. Everything is float64 and torch-free.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

_COLUMNS = 2048  # that are float64 at a time: those of pictures would fill the memory


class RmsState(TypedDict):
    """Moments of `count` samples."""

    mean: NDArray[np.float64]
    var: NDArray[np.float64]
    count: float


def empty_rms_state(size: int) -> RmsState:
    """The state before any data: mean 0, variance 1, count 0, which normalises to the input itself."""
    return {"mean": np.zeros(size), "var": np.ones(size), "count": 0.0}


def compute_batch_moments(samples: NDArray[Any]) -> RmsState:
    """Moments of samples [N, D], in two passes so that large offsets do not cancel.

    Raises:
        ValueError: no samples, not two dimensions, or a value that is not finite (its column is named).
    """
    samples = np.asarray(samples)
    if samples.ndim != 2 or samples.shape[0] == 0:
        raise ValueError(f"moments need samples of shape [N, D] with N > 0, got shape {samples.shape}")
    blocks = range(0, max(1, samples.shape[1]), _COLUMNS)
    parts = [_moments_of(samples[:, first : first + _COLUMNS]) for first in blocks]
    mean, var = (np.concatenate(each) for each in zip(*parts, strict=True))
    if not (np.isfinite(mean).all() and np.isfinite(var).all()):
        column = int(np.argmin(np.isfinite(mean) & np.isfinite(var)))
        raise ValueError(f"moments need finite samples, column {column} is not")
    return {"mean": mean, "var": var, "count": float(samples.shape[0])}


def _moments_of(samples: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and population variance of each column."""
    mean = samples.mean(axis=0, dtype=np.float64)
    deviation = samples - mean
    return mean, np.einsum("nd,nd->d", deviation, deviation) / samples.shape[0]


def merge_rms_states(states: Sequence[RmsState]) -> RmsState:
    """Moments of the union of disjoint batches; a state with count 0 adds nothing.

    Raises:
        ValueError: no states at all.
    """
    if not states:
        raise ValueError("merge_rms_states needs at least one state")
    filled = [state for state in states if state["count"] > 0]
    if len(filled) < 2:
        only = filled[0] if filled else states[0]
        return {"mean": np.array(only["mean"]), "var": np.array(only["var"]), "count": float(only["count"])}
    count = sum(state["count"] for state in filled)
    weights = np.array([state["count"] / count for state in filled])
    means = np.stack([state["mean"] for state in filled])
    mean = weights @ means
    between = means - mean
    var = weights @ (np.stack([state["var"] for state in filled]) + between * between)
    return {"mean": mean, "var": var, "count": float(count)}
