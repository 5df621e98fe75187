"""What several runs show together: groups of seeds, where they differ, and which group is better. Torch-free.

A group holds runs that differ in their seed only. Its score is the last evaluation of each seed that all runs have
reached. One rule decides: a difference that seeds which are alike would show in more than 5 % of cases is none. Where
several groups are set against the first one, that holds of all verdicts together (Holm).
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ddp_ppo.config.sections import canonical
from ddp_ppo.config.settings import ConfigError
from ddp_ppo.maths.statistics import (
    bootstrap_interval,
    chance_of_difference,
    holm,
    iqm,
    iqm_of_rows,
    probability_of_improvement,
)
from ddp_ppo.report.charts import Series, number
from ddp_ppo.runs.metric_table import ELAPSED_SECONDS, MEASURED, SCORE, TRAINING_RETURN, seconds_of
from ddp_ppo.runs.reading import Run
from ddp_ppo.text import listed

SB3 = "sb3"  # the setting `learner` of a run that sb3_run has trained
CHANCE = 0.05
STEPS_TOLERANCE = 0.01  # rounds of another size do not end at the same step
_OF_ONE_RUN = {"seed", "run_name", "output_dir", "metrics_path", "resume"}  # settings that make no other group
_OF_A_MACHINE = {"system", "cores", "actors", "threads"}
_MAX_POINTS = 60  # of a curve with intervals, which are resampled at each
_NUM_RESAMPLES = 1000
_SHORT = 0.9  # a run that ends before this share of the longest one holds the others back
_MOST_NAMED = 3  # settings in a label, metrics that part


@dataclass(frozen=True)
class Group:
    """Runs with the same settings and versions, each with a seed of its own; labels differ between groups."""

    label: str
    runs: tuple[Run, ...]


class GroupResult(NamedTuple):
    """How one group did.

    Attributes:
        scores: one for each run.
        low, high: the 95 % interval of their interquartile mean; NaN for one run.
        improvement: how likely a run of it beats one of the first group.
        chance: how often groups that are alike part as far from each other as it and the first one; raised as Holm
            does where several groups are set against the first.
        seconds: median over runs of the time to sample and learn until that score.
    """

    group: Group
    scores: list[float]
    iqm: float
    low: float
    high: float
    improvement: float
    chance: float
    seconds: float


class Parting(NamedTuple):
    """Where two runs of one seed part: `round` is None where all common rounds are equal."""

    first: Run
    second: Run
    num_rounds: int
    round: int | None
    metrics: list[tuple[str, float, float]]


def group_runs(runs: Sequence[Run], ignored: Sequence[str] = ()) -> list[Group]:
    """Groups in the order of their first runs; a second run of a seed goes to a group of its own.

    Args:
        ignored: settings and versions in which the runs of a group may differ too.

    Raises:
        ConfigError: no run has such a setting or version.
    """
    ignored = [canonical(name) for name in ignored]
    traits = [{**run.versions, **{key: given.value for key, given in run.settings.items()}} for run in runs]
    for name in ignored:
        if not any(name in one for one in traits):
            raise ConfigError(f"--ignore: {name} is neither a setting nor a version of these runs")
    found: dict[tuple[str, int], list[Run]] = {}
    repeats: Counter[tuple[str, object]] = Counter()
    free = {*_OF_ONE_RUN, *_OF_A_MACHINE, *ignored}
    for run, own in zip(runs, traits, strict=True):
        key = str(sorted((name, value) for name, value in own.items() if name not in free))
        repeats[key, run.setting("seed")] += 1
        found.setdefault((key, repeats[key, run.setting("seed")]), []).append(run)
    groups = [Group(members[0].name, tuple(members)) for members in found.values()]
    return [Group(label, group.runs) for label, group in zip(_labels(groups, ignored), groups, strict=True)]


def _labels(groups: Sequence[Group], ignored: Sequence[str]) -> Iterator[str]:
    """Names; equal ones are told apart by what differs, by a number where that does not help."""
    used: set[str] = set()
    for place, group in enumerate(groups):
        alike = [other for other in groups if other.label == group.label]
        differences = [*differing_settings(alike), *differing_versions(alike)]
        own = [f"{key} {values[alike.index(group)]}" for key, values in differences if key not in ignored]
        label = ", ".join([group.label, *own[:_MOST_NAMED]])
        label = f"{label} ({place + 1})" if label in used else label
        used.add(label)
        yield label


def differing_settings(groups: Sequence[Group]) -> list[tuple[str, list[str]]]:
    """(setting, its value in each group) where they are not all the same; "-" where a group does not have it."""
    tables = [{key: given.value for key, given in group.runs[0].settings.items()} for group in groups]
    return [(key, values) for key, values in _differing(tables) if key not in _OF_ONE_RUN]


def differing_versions(groups: Sequence[Group]) -> list[tuple[str, list[str]]]:
    """(package or part of the machine, its version in each group) where they are not all the same."""
    tables = []
    for group in groups:
        names = dict.fromkeys(name for run in group.runs for name in run.versions)
        tables.append(
            {name: " / ".join(dict.fromkeys(run.versions.get(name, "-") for run in group.runs)) for name in names}
        )
    return _differing(tables)


def _differing(tables: Sequence[Mapping[str, str]]) -> list[tuple[str, list[str]]]:
    rows = [(key, [table.get(key, "-") for table in tables]) for key in dict.fromkeys(itertools.chain(*tables))]
    return [(key, values) for key, values in rows if len(set(values)) > 1]


def score_metric(runs: Sequence[Run]) -> str:
    """What is compared: evaluations, or training returns where a run has no evaluation."""
    return SCORE if all(run.known(SCORE) for run in runs) else TRAINING_RETURN


def common_steps(runs: Sequence[Run], metric: str) -> float:
    """Environment steps at the last value that every run has got to."""
    return min(_last_steps(run, metric) for run in runs)


def _last_steps(run: Run, metric: str) -> float:
    return run.column("env_steps")[run.known(metric)[-1][0]]


def held_back(runs: Sequence[Run], metric: str) -> Iterator[str]:
    """What single runs cost all of them: one without an evaluation its kind of score, a short one the rest of it."""
    bare = [run for run in runs if metric != SCORE and not run.known(SCORE)]
    if 0 < len(bare) < len(runs):
        yield f"training returns are compared, not evaluations: {_named(bare)} has none; leave it out to compare them"
    steps = [_last_steps(run, metric) for run in runs]
    if short := [run for run, last in zip(runs, steps, strict=True) if last < _SHORT * max(steps)]:
        longest = runs[steps.index(max(steps))].path.name
        yield (
            f"all are compared at {min(steps):,.0f} environment steps, where the shortest ends, and not at the "
            f"{max(steps):,.0f} of {longest}: train on, or leave out, {_named(short)}"
        )


def _named(runs: Sequence[Run]) -> str:
    return listed([run.path.name for run in runs], _MOST_NAMED)


def training_seconds(run: Run) -> list[float]:
    """Time to sample and learn until the end of each round: evaluations and files are left out."""
    spent = itertools.accumulate(value if math.isfinite(value) else 0.0 for value in run.column(seconds_of("record")))
    return [elapsed - other for elapsed, other in zip(run.column(ELAPSED_SECONDS), spent, strict=True)]


def group_results(groups: Sequence[Group]) -> list[GroupResult]:
    """Each group's scores, beside the first group's."""
    runs = [run for group in groups for run in group.runs]
    metric = score_metric(runs)
    steps = common_steps(runs, metric)
    result: list[GroupResult] = []
    for group in groups:
        rows = [_row_at(run, metric, steps) for run in group.runs]
        scores = [run.column(metric)[row] for run, row in zip(group.runs, rows, strict=True)]
        first = result[0].scores if result else scores
        better, chance = probability_of_improvement(scores, first), chance_of_difference(scores, first)
        seconds = statistics.median(training_seconds(run)[row] for run, row in zip(group.runs, rows, strict=True))
        interval = bootstrap_interval(scores, iqm_of_rows)
        result.append(GroupResult(group, scores, iqm(scores), *interval, better, chance, seconds))
    chances = holm([one.chance for one in result[1:]])
    return [*result[:1], *(one._replace(chance=chance) for one, chance in zip(result[1:], chances, strict=True))]


def _row_at(run: Run, metric: str, steps: float) -> int:
    """The row of the last value up to these environment steps, or hardly more, else of the first one."""
    rows, most = [row for row, _ in run.known(metric)], steps * (1.0 + STEPS_TOLERANCE)
    return [row for row in rows if run.column("env_steps")[row] <= most or row == rows[0]][-1]


def verdict(first: GroupResult, second: GroupResult, num_verdicts: int = 1) -> str:
    """One paragraph: whether `second` is better or worse than `first`, and how sure that is.

    Args:
        num_verdicts: how many groups are set against `first` at once.
    """
    counts = f"{len(first.scores)} and {len(second.scores)} seeds"
    figures = f"interquartile mean {_figures(second)} against {_figures(first)}"
    least = num_verdicts * 2.0 / math.comb(len(first.scores) + len(second.scores), len(first.scores))
    chance = f"equal groups part as far in {second.chance:.1%} of cases"
    if second.chance <= CHANCE:
        word = "better" if second.improvement > 0.5 else "worse"
        beats = f"its runs beat the other's with probability {second.improvement:.2f}"
        return f"{second.group.label} is {word} than {first.group.label}: {figures}; {beats}; {chance}."
    start = f"No difference between {second.group.label} and {first.group.label} can be shown: {figures}; "
    if least > CHANCE:
        needed = next(n for n in itertools.count(2) if num_verdicts * 2.0 / math.comb(2 * n, n) <= CHANCE)
        return f"{start}with {counts} even a complete separation may be luck. Train at least {needed} seeds of each."
    return f"{start}{chance}."


def _figures(result: GroupResult) -> str:
    interval = "" if math.isnan(result.low) else f" [{number(result.low)}, {number(result.high)}]"
    return f"{number(result.iqm)}{interval}"


def curve(group: Group, metric: str, *, over_seconds: bool = False) -> Series:
    """Interquartile mean over seeds with its 95 % interval, wherever every run of the group has a value.

    One run alone is its own curve, without an interval.
    """
    known = [{run.column("env_steps")[row]: (row, value) for row, value in run.known(metric)} for run in group.runs]
    steps = sorted(set(known[0]).intersection(*known[1:]))
    if len(group.runs) > 1:
        every = math.ceil(len(steps) / _MAX_POINTS) or 1
        steps = steps[::-1][::every][::-1]
    columns = [[values[step][1] for values in known] for step in steps]
    x: list[float] = list(steps)
    if over_seconds:
        times = [training_seconds(run) for run in group.runs]
        x = [statistics.mean(t[values[step][0]] for t, values in zip(times, known, strict=True)) for step in steps]
    has_dots = metric.startswith("eval/")
    if len(group.runs) == 1:
        return Series(group.label, x, [column[0] for column in columns], has_dots=has_dots)
    bounds = [bootstrap_interval(column, iqm_of_rows, num_resamples=_NUM_RESAMPLES) for column in columns]
    low, high = [bound[0] for bound in bounds], [bound[1] for bound in bounds]
    return Series(group.label, x, [iqm(column) for column in columns], low, high, has_dots=has_dots)


def partings(runs: Sequence[Run]) -> list[Parting]:
    """Every later run beside the first one with the same seed and learner."""
    first: dict[tuple[object, object], Run] = {}
    found = []
    for run in runs:
        other = first.setdefault((run.setting("seed"), run.setting("learner")), run)
        if other is not run:
            found.append(_parting(other, run))
    return found


def _parting(first: Run, second: Run) -> Parting:
    """The first round in which a metric differs, unless a clock or the kernel has measured it."""
    names = [name for name in first.columns if name in second.columns and not name.startswith(MEASURED)]
    num_rounds = min(first.num_rounds, second.num_rounds)
    for row in range(num_rounds):
        values = [(name, first.columns[name][row], second.columns[name][row]) for name in names]
        parted = [(name, a, b) for name, a, b in values if a != b and not (math.isnan(a) and math.isnan(b))]
        if parted:
            return Parting(first, second, num_rounds, int(first.column("round")[row]), parted)
    return Parting(first, second, num_rounds, None, [])
