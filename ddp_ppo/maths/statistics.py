"""Statistics of returns over episodes or seeds: few values, wide and skewed. Pure functions, torch-free.

Source: Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the Statistical Precipice" (interquartile mean,
bootstrap interval, probability of improvement); Holm 1979, "A Simple Sequentially Rejective Multiple Test Procedure".

Shapes: N values, R resamples.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_DEALS = 10_000  # of a permutation test
_MOST_EXACT = 5  # values of which all N ** N resamples are taken: 3125
_BLOCK = 1_000_000  # values that are resampled at a time

Values = Sequence[float] | NDArray[Any]


def iqm(values: Values) -> float:
    """Interquartile mean: the mean of what is left without the lowest and the highest quarter, rounded down each.

    Raises:
        ValueError: no values, or one that is not finite.
    """
    return float(iqm_of_rows(_checked(values)[None])[0])


def iqm_of_rows(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """`iqm` of each row of [R, N] finite values: [R]."""
    ordered = np.sort(rows, axis=1)
    cut = rows.shape[1] // 4
    return np.asarray(ordered[:, cut : rows.shape[1] - cut].mean(axis=1))


def mean_of_rows(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of each row of [R, N] values: [R]."""
    return np.asarray(rows.mean(axis=1))


def bootstrap_interval(
    values: Values,
    statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    *,
    seed: int = 0,
    num_resamples: int = 10_000,
    level: float = 0.95,
) -> tuple[float, float]:
    """Percentile interval of a statistic over resamples with replacement; the same for the same seed.

    It is exact, over all N ** N resamples, for up to 5 values.

    Args:
        values: [N] independent values.
        statistic: `iqm_of_rows` or `mean_of_rows`.
        num_resamples: of more than 5 values.
        level: share of the resamples inside the interval, in (0, 1).

    Returns:
        low and high; NaN both for a single value, which tells nothing of the spread.

    Raises:
        ValueError: no values, or one that is not finite.
    """
    sample = _checked(values)
    if len(sample) == 1:
        return np.nan, np.nan
    found = np.concatenate([statistic(rows) for rows in _resamples(sample, seed, num_resamples)])
    low, high = np.quantile(found, [(1.0 - level) / 2.0, (1.0 + level) / 2.0], method="inverted_cdf")
    return float(low), float(high)


def _resamples(sample: NDArray[np.float64], seed: int, num_resamples: int) -> Iterator[NDArray[np.float64]]:
    """Rows of N values: all there are of few values, else a sample of them, some at a time."""
    size = len(sample)
    if size <= _MOST_EXACT:
        yield sample[np.indices((size,) * size).reshape(size, -1).T]
        return
    generator, every = np.random.default_rng(seed), max(1, _BLOCK // size)
    for start in range(0, num_resamples, every):
        yield sample[generator.integers(size, size=(min(every, num_resamples - start), size))]


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


def holm(chances: Sequence[float]) -> list[float]:
    """Chances of one family of tests, each raised so that below a limit all of them together are wrong as seldom."""
    adjusted, highest = [1.0] * len(chances), 0.0
    for rank, place in enumerate(sorted(range(len(chances)), key=chances.__getitem__)):
        highest = max(highest, (len(chances) - rank) * chances[place])
        adjusted[place] = min(1.0, highest)
    return adjusted


def _checked(values: Values) -> NDArray[np.float64]:
    array = np.asarray(values, np.float64)
    if array.ndim != 1 or not len(array) or not np.isfinite(array).all():
        raise ValueError(f"scores need one row of finite values, got {array}")
    return array
