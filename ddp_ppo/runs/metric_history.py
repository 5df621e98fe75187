"""The metrics of a run so far, as anomaly rules look at them: what is usual, how it began, what came last. Torch-free.

A look at a metric is a round that reports it: with an evaluation every 100 rounds there is one look in 100 rounds.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ddp_ppo.runs.metric_table import (
    EPISODE_LENGTH,
    EPISODES,
    SCORE,
    STEPS_PER_SECOND,
    TRAINING_RETURN,
    seconds_of,
)

SETTLED = 20  # looks after which there is a usual value
# Derived from the metrics of a round.
TRAINED = "training return at an evaluation"  # mean of the looks before it
EPISODE_STEPS = "environment steps of the episodes that ended"
WORKING_SPEED = "steps per second without evaluation and files"
_WINDOW = 50  # looks that "usual" is the median of
_LOOKS_AT_EVALUATION = 5

Row = Mapping[str, float]


@dataclass
class _Values:
    """What is kept of one metric."""

    first: list[float] = field(default_factory=list)
    last: deque[float] = field(default_factory=lambda: deque(maxlen=_WINDOW))
    low: float = math.inf
    high: float = -math.inf
    total: float = 0.0
    count: int = 0

    def add(self, value: float) -> None:
        if len(self.first) < SETTLED:
            self.first.append(value)
        self.last.append(value)
        self.low, self.high = min(self.low, value), max(self.high, value)
        self.total += value
        self.count += 1


class History:
    """All rounds of this session before the current one.

    Attributes:
        time_limit: steps after which an episode of the task is truncated; None without a limit.
        standard: the return from which the task counts as solved; None if there is no such standard.
    """

    def __init__(self, *, time_limit: int | None = None, standard: float | None = None) -> None:
        self.time_limit, self.standard = time_limit, standard
        self._values: dict[str, _Values] = defaultdict(_Values)

    def look(self, row: Row) -> Row:
        """The round with what is derived from it, and NaN for every metric that it does not report."""
        return defaultdict(lambda: math.nan, {**row, **dict(self._derived(defaultdict(lambda: math.nan, row)))})

    def _derived(self, row: Row) -> Iterator[tuple[str, float]]:
        if row[EPISODES] > 0:
            yield EPISODE_STEPS, row[EPISODES] * row[EPISODE_LENGTH]
        if not math.isnan(row[SCORE]):
            yield TRAINED, self.trained()
        seconds, working = row[seconds_of("round")], row[seconds_of("round")] - row[seconds_of("record")]
        yield WORKING_SPEED, row[STEPS_PER_SECOND] * (seconds / working if working > 0 else 1.0)

    def add(self, row: Row) -> None:
        """Takes in a finished round that `look` has returned."""
        for name, value in row.items():
            if not math.isnan(value):
                self._values[name].add(value)

    def usual(self, name: str) -> float:
        """The median of the last looks; NaN before there are enough of them."""
        values = self._values[name].last
        return statistics.median(values) if len(values) >= SETTLED else math.nan

    def last(self, name: str, count: int) -> list[float]:
        """The last `count` values, oldest first; fewer if there are fewer."""
        return list(self._values[name].last)[-count:]

    def trained(self) -> float:
        """Mean training return of the last looks; NaN before the first one."""
        values = self.last(TRAINING_RETURN, _LOOKS_AT_EVALUATION)
        return statistics.mean(values) if values else math.nan

    def halves(self, name: str) -> tuple[float, float]:
        """Means of the older and of the newer half of the last looks; NaN before there are enough of them."""
        values = list(self._values[name].last)
        half = len(values) // 2
        if len(values) < SETTLED:
            return math.nan, math.nan
        return statistics.mean(values[:half]), statistics.mean(values[half:])

    def ends(self, name: str) -> tuple[float, float]:
        """Means of the first and of the last quarter of the run, of 20 looks at most; NaN before there are enough."""
        values = self._values[name]
        if values.count < SETTLED:
            return math.nan, math.nan
        quarter = min(SETTLED, values.count // 4)
        return statistics.mean(values.first[:quarter]), statistics.mean(list(values.last)[-quarter:])

    def start(self, name: str) -> float:
        """The first value of the run; NaN before it."""
        return next(iter(self._values[name].first), math.nan)

    def extremes(self, name: str) -> tuple[float, float]:
        """The smallest and the largest value of the run; inf and -inf before the first look."""
        return self._values[name].low, self._values[name].high

    def total(self, name: str) -> float:
        """The sum over the run."""
        return self._values[name].total
