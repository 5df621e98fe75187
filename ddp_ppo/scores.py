"""Statistics of returns over episodes or seeds: few values, wide and skewed. Pure functions, torch-free.

Source: Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the Statistical Precipice" (interquartile mean,
bootstrap interval, probability of improvement).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_DEALS = 10_000  # of a permutation test

Values = Sequence[float] | NDArray[Any]


def iqm(values: Values) -> float:
    """Interquartile mean: the mean of what is left without the lowest and the highest quarter, rounded down each.

    Raises:
        ValueError: no values, or one that is not finite.
    """
    ordered = np.sort(_checked(values))
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def bootstrap_interval(
    values: Values,
    statistic: Callable[[NDArray[np.float64]], Any],
    *,
    seed: int = 0,
    num_resamples: int = 2000,
    level: float = 0.95,
) -> tuple[float, float]:
    """Percentile interval of a statistic over resamples with replacement; the same for the same seed.

    Args:
        values: [N] independent values.
        statistic: maps [N] values to a number, such as `iqm` or `np.mean`.
        level: share of the resamples inside the interval, in (0, 1).

    Returns:
        low and high; NaN both for a single value, which tells nothing of the spread.

    Raises:
        ValueError: no values, or one that is not finite.
    """
    sample = _checked(values)
    if len(sample) == 1:
        return np.nan, np.nan
    chosen = np.random.default_rng(seed).integers(len(sample), size=(num_resamples, len(sample)))
    found = [float(statistic(resample)) for resample in sample[chosen]]
    low, high = np.quantile(found, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return float(low), float(high)


def probability_of_improvement(a: Values, b: Values) -> float:
    """How likely a value of `a` is above one of `b`, ties counted half: 0 .. 1, 0.5 where they are alike.

    Raises:
        ValueError: no values, or one that is not finite.
    """
    difference = _checked(a)[:, None] - _checked(b)[None, :]
    return float((np.sign(difference).mean() + 1.0) / 2.0)


def chance_of_difference(a: Values, b: Values, *, seed: int = 0) -> float:
    """How often values that are alike, dealt into two groups of these sizes, part at least as much as `a` and `b` do.

    A permutation test on the probability of improvement: exact up to `MOST_DEALS` ways to deal, else a sample of them.

    Returns:
        a share in (0, 1]; small where a difference is hard to explain by luck.

    Raises:
        ValueError: no values, or one that is not finite.
    """
    pooled, size = np.concatenate([_checked(a), _checked(b)]), len(a)
    ranks = (np.sign(pooled[:, None] - pooled[None, :]) + 1.0).sum(axis=1)
    if math.comb(len(pooled), size) <= MOST_DEALS:
        deals = ranks[np.array(list(itertools.combinations(range(len(pooled)), size)))]
    else:
        generator = np.random.default_rng(seed)
        deals = np.array([ranks[:size], *(generator.permutation(ranks)[:size] for _ in range(MOST_DEALS))])
    apart = np.abs(deals.sum(axis=1) - size * ranks.mean())
    return float((apart >= apart[0] - 1e-9).mean())


def _checked(values: Values) -> NDArray[np.float64]:
    array = np.asarray(values, np.float64)
    if array.ndim != 1 or not len(array) or not np.isfinite(array).all():
        raise ValueError(f"scores need one row of finite values, got {array}")
    return array
