"""The charts of one run: every metric of it once, in the order of the questions. Torch-free.

What is left follows, so that no metric of a new kind is lost.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise

from ddp_ppo.report.charts import Chart, Series, number
from ddp_ppo.runs.metric_table import (
    ELAPSED_SECONDS,
    QUESTIONS,
    SCORE,
    SCORE_STD,
    STAGES,
    Metric,
    charts,
    seconds_of,
)
from ddp_ppo.runs.reading import Run

_MAX_TIME_POINTS = 120
# Axes, the whole that the parts of a round are shown of, and the spread that is drawn around the score.
_NOT_DRAWN = {"round", "env_steps", ELAPSED_SECONDS, seconds_of("round"), SCORE_STD}


def learning_charts(run: Run) -> Iterator[Chart]:
    """Returns, lengths and the terms of the reward."""
    return _charts(run, "learn")


def health_charts(run: Run) -> Iterator[Chart]:
    """What the learner did in each round."""
    return _charts(run, "health")


def scale_charts(run: Run) -> Iterator[Chart]:
    """The state of the normaliser."""
    return _charts(run, "scale")


def time_charts(run: Run) -> Iterator[Chart]:
    """How the time of a round is split, and the speed that comes of it."""
    parts = {name: run.column(seconds_of(name)) for name in time_parts(run)}
    steps = run.column("env_steps")
    edges = _edges(run.num_rounds)
    x = [steps[end - 1] for _, end in edges]
    sums = {name: [_sum(values[start:end]) for start, end in edges] for name, values in parts.items()}
    totals = [sum(column) or 1.0 for column in zip(*sums.values(), strict=True)]
    shares = [
        Series(name, x, [100.0 * part / total for part, total in zip(values, totals, strict=True)])
        for name, values in sums.items()
    ]
    yield Chart("Parts of a round, %", shares, is_stacked=True)
    yield from _charts(run, "time", without={seconds_of(name) for name in parts})


def machine_charts(run: Run) -> Iterator[Chart]:
    """Memory and cores of the run's processes."""
    return _charts(run, "machine")


def other_charts(run: Run) -> Iterator[Chart]:
    """Every metric that has no place above and does change."""
    for name in _others(run):
        if len({value for _, value in run.known(name)}) > 1:
            yield _chart(run, name, [(Metric(name=name), name)])


def unchanged(run: Run) -> str:
    """The other metrics, which have the same value in every round."""
    values = {name: {value for _, value in run.known(name)} for name in _others(run)}
    return ", ".join(f"{name} {number(*found)}" for name, found in values.items() if len(found) == 1)


def time_parts(run: Run) -> list[str]:
    """Names of what a round consists of."""
    return [*STAGES] if seconds_of("sample") in run.columns else []


def _others(run: Run) -> list[str]:
    shown = (charts(run.table, question, run.columns) for question in QUESTIONS)
    drawn = _NOT_DRAWN | {name for found in shown for curves in found.values() for _, name in curves}
    return [name for name in run.columns if name not in drawn]


def _charts(run: Run, question: str, without: Collection[str] = ()) -> Iterator[Chart]:
    names = [name for name in run.columns if name not in without]
    return (_chart(run, title, curves) for title, curves in charts(run.table, question, names).items())


def _chart(run: Run, title: str, curves: Sequence[tuple[Metric, str]]) -> Chart:
    marks = [(value, row.mark) for row, _ in curves if (value := run.setting(row.mark)) is not None]
    return Chart(
        title,
        [_series(run, row.label_of(name), name) for row, name in curves],
        is_log=any(row.is_log for row, _ in curves),
        marks=[(value, f"{mark} {number(value)}") for value, mark in marks],
        moments=sorted({env_steps_at(run, event["round"]) for event in run.events if event["event"] == "anomaly"}),
    )


def _series(run: Run, label: str, name: str) -> Series:
    known, steps = run.known(name), run.column("env_steps")
    y = [value for _, value in known]
    if name != SCORE:
        return Series(label, [steps[row] for row, _ in known], y, has_dots=name.startswith("eval/"))
    spread = [run.column(SCORE_STD)[row] for row, _ in known]
    low, high = ([value + sign * std for value, std in zip(y, spread, strict=True)] for sign in (-1.0, 1.0))
    return Series(label, [steps[row] for row, _ in known], y, low, high, has_dots=True)


def env_steps_at(run: Run, round_index: int) -> float:
    """Environment steps after a number of rounds."""
    return run.column("env_steps")[min(round_index, run.num_rounds) - 1] if round_index else 0.0


def _edges(num_rounds: int) -> list[tuple[int, int]]:
    count = min(num_rounds, _MAX_TIME_POINTS)
    edges = [num_rounds * i // count for i in range(count + 1)]
    return list(pairwise(edges))


def _sum(values: Iterable[float]) -> float:
    return sum(value for value in values if math.isfinite(value))
