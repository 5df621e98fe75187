"""`ddp-ppo compare RUN RUN ...`: several runs side by side as text and as one self-contained HTML page.

It reads run folders; another trainer to stand against (`against`) is trained before that. No torch.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from ddp_ppo import text
from ddp_ppo.config.settings import ConfigError
from ddp_ppo.report.charts import Chart, number, short_number
from ddp_ppo.report.groups import (
    SB3,
    STEPS_TOLERANCE,
    Group,
    GroupResult,
    Parting,
    common_steps,
    curve,
    differing_settings,
    differing_versions,
    group_results,
    group_runs,
    held_back,
    partings,
    score_metric,
    verdict,
)
from ddp_ppo.report.page import charts_html, heading, page, table
from ddp_ppo.runs.metric_table import METRICS, merged, title_alone
from ddp_ppo.runs.reading import Run

_MOST_METRICS = 3  # named where two runs part
_HOLM_NOTE = "each chance is Holm's, so that in 5 % of cases at most any verdict of them is luck."
_SB3_NOTE = (
    "sb3 is stable-baselines3's PPO with the same settings: VecNormalize, DummyVecEnv, one torch thread. Times are of "
    "sampling and learning; evaluations and files are left out on both sides."
)


@dataclass(frozen=True)
class Comparison:
    """All that is told of several runs.

    Attributes:
        metric: what is compared; `steps` environment steps are what every run has done by then.
        verdicts: one for each group after the first.
        settings, versions: (name, value in each group) where groups differ.
        notes: how to read it.
    """

    metric: str
    steps: float
    results: Sequence[GroupResult]
    verdicts: Sequence[str]
    settings: Sequence[tuple[str, list[str]]]
    versions: Sequence[tuple[str, list[str]]]
    partings: Sequence[Parting]
    notes: Sequence[str]

    @property
    def groups(self) -> list[Group]:
        """The groups in their order."""
        return [result.group for result in self.results]


def compare(runs: Sequence[Run], ignored: Sequence[str] = ()) -> Comparison:
    """Compares runs; `ignored` settings and versions make no group of their own.

    Raises:
        ConfigError: one is given twice, is of another task, or has not finished an episode yet.
    """
    for place, run in enumerate(runs):
        if any(run.path.samefile(other.path) for other in runs[:place]):
            raise ConfigError(f"{run.path}: given twice")
        if run.tasks != runs[0].tasks:
            tasks = f"{run.tasks}, not {runs[0].tasks}"
            raise ConfigError(f"{run.path}: its task is {tasks}; returns of two tasks cannot be compared")
    metric = score_metric(runs)
    for run in runs:
        if not run.known(metric):
            raise ConfigError(f"{run.path}: no episode has ended in it yet; there is nothing to compare")
    groups = group_runs(runs, ignored)
    found = group_results(groups)
    verdicts = [verdict(found[0], other, len(groups) - 1) for other in found[1:]]
    differences = differing_settings(groups), differing_versions(groups)
    notes = list(held_back(runs, metric))
    if len(verdicts) > 1:
        notes.append(f"{len(verdicts)} groups are set against the first: {_HOLM_NOTE}")
    notes += [_SB3_NOTE] if any(run.setting("learner") == SB3 for run in runs) else []
    return Comparison(metric, common_steps(runs, metric), found, verdicts, *differences, partings(runs), notes)


def comparison_text(comparison: Comparison) -> str:
    """The same for a terminal: results, differences, where runs part, verdicts."""
    header, rows = _result_table(comparison)
    entries = [("compared", _result_note(comparison))]
    entries += [("differs", f"{name}: {' | '.join(values)}") for name, values in _differences(comparison)]
    entries += [(f"seed {parting.first.setting('seed')}", _parting_words(parting)) for parting in comparison.partings]
    entries += [("note", note) for note in comparison.notes]
    entries += [("verdict", words) for words in _verdicts(comparison)]
    return "\n".join([text.table([header, *rows]), "", *(text.entry(name, words) for name, words in entries)])


def document(comparison: Comparison) -> dict[str, Any]:
    """The same as plain values."""
    return {
        "compared": _result_note(comparison),
        "metric": comparison.metric,
        "env_steps": comparison.steps,
        "verdicts": list(comparison.verdicts),
        "notes": list(comparison.notes),
        "groups": [
            {
                "label": one.group.label,
                "runs": [str(run.path) for run in one.group.runs],
                "seeds": [run.setting("seed") for run in one.group.runs],
                "scores": one.scores,
                "iqm": one.iqm,
                "interval": None if math.isnan(one.low) else [one.low, one.high],
                "probability_of_improvement": one.improvement,
                "chance_of_difference": one.chance,
                "training_seconds": one.seconds,
            }
            for one in comparison.results
        ],
        "settings": dict(comparison.settings),
        "versions": dict(comparison.versions),
        "partings": [
            {"first": str(one.first.path), "second": str(one.second.path), "rounds": one.num_rounds, "round": one.round}
            for one in comparison.partings
        ],
    }


def write_page(comparison: Comparison, path: Path) -> None:
    """Writes the page; raises OSError."""
    path.write_text(page("Comparison of runs", _sections(comparison)), encoding="utf-8")


def require_matplotlib() -> None:
    """Raises ConfigError where matplotlib, which no extra brings, is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ConfigError("--png: needs matplotlib; pip install matplotlib, or leave --png out")


def write_png(comparison: Comparison, path: Path) -> None:
    """Draws the score's curves over environment steps and over time, with matplotlib."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(11.0, 4.0), layout="constrained")
    for axes, over_seconds in zip(figure.subplots(1, 2), (False, True), strict=True):
        for group in comparison.groups:
            series = curve(group, comparison.metric, over_seconds=over_seconds)
            (line,) = axes.plot(series.x, series.y, label=series.label)
            if series.low:
                axes.fill_between(series.x, series.low, series.high, color=line.get_color(), alpha=0.2, linewidth=0)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(lambda value, _: short_number(value))
        axes.set_xlabel("seconds of sampling and learning" if over_seconds else "environment steps")
        axes.set_ylabel(_score_name(comparison).lower())
        axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.suptitle(f"{_score_name(comparison)} in {comparison.groups[0].runs[0].tasks}")
    figure.savefig(path, dpi=150)


def _sections(comparison: Comparison) -> Iterator[str]:
    groups = comparison.groups
    yield "<h1>Comparison of runs</h1>"
    yield from (f"<p>{escape(words)}</p>" for words in _verdicts(comparison))
    yield from (f'<p class="note">{escape(note)}</p>' for note in comparison.notes)
    yield heading("Results", _result_note(comparison)) + table(*_result_table(comparison))
    name = _score_name(comparison)
    yield heading("Learning curves", "Interquartile mean over seeds with its 95 % interval; a single run has none.")
    over_time = [curve(group, comparison.metric, over_seconds=True) for group in groups]
    charts = [Chart(name, [curve(group, comparison.metric) for group in groups])]
    yield charts_html([*charts, Chart(f"{name} over time", over_time, "seconds", "Seconds of sampling and learning.")])
    yield charts_html(_other_charts(comparison))
    yield heading("Seeds") + table(*_seed_table(comparison), num_names=2)
    header = ("", *(group.label for group in groups))
    for title, rows in (("Settings that differ", comparison.settings), ("Versions that differ", comparison.versions)):
        yield heading(title, "" if rows else "none")
        yield table(header, [(key, *values) for key, values in rows], num_names=len(header))
    lines = [(one.first.setting("seed"), _parting_words(one)) for one in comparison.partings]
    yield heading("Where runs of one seed part", "" if lines else "no two runs have the same seed and learner")
    yield table(("seed", ""), lines, num_names=2)


def _other_charts(comparison: Comparison) -> Iterator[Chart]:
    """What else the table of metrics has to compare, of the groups whose runs all have it."""
    table = merged(run.table for group in comparison.groups for run in group.runs)
    for row in table:
        if row.is_compared and row.name != comparison.metric:
            groups = [group for group in comparison.groups if all(run.known(row.name) for run in group.runs)]
            yield Chart(title_alone(table, row), [curve(group, row.name) for group in groups], is_log=row.is_log)


def _score_name(comparison: Comparison) -> str:
    (row,) = (row for row in METRICS if row.name == comparison.metric)
    return title_alone(METRICS, row)


def _verdicts(comparison: Comparison) -> Sequence[str]:
    (first, *others) = comparison.results
    if others:
        return comparison.verdicts
    seeds = "seed" if len(first.scores) == 1 else "seeds"
    return [f"One configuration, {first.group.label}, with {len(first.scores)} {seeds}: nothing to compare it with."]


def _result_note(comparison: Comparison) -> str:
    return (
        f"{comparison.metric} at {comparison.steps:,.0f} environment steps, where the shortest run ends (at most "
        f"{STEPS_TOLERANCE:.0%} later). "
        "P: how likely a run beats one of the first group. Chance: how often equal groups differ this much."
    )


def _result_table(comparison: Comparison) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    rows = [
        (
            one.group.label,
            str(len(one.scores)),
            number(one.iqm),
            "-" if math.isnan(one.low) else f"{number(one.low)} .. {number(one.high)}",
            "-" if one is comparison.results[0] else f"{one.improvement:.2f}",
            "-" if one is comparison.results[0] else f"{one.chance:.3f}",
            text.duration(one.seconds),
        )
        for one in comparison.results
    ]
    return ("group", "seeds", "IQM", "95 % interval", "P(> first)", "chance", "training time"), rows


def _seed_table(comparison: Comparison) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    rows = [
        (one.group.label, run.path.name, str(run.setting("seed")), number(score), f"{run.column('env_steps')[-1]:,.0f}")
        for one in comparison.results
        for run, score in zip(one.group.runs, one.scores, strict=True)
    ]
    return ("group", "run", "seed", "score", "environment steps in total"), rows


def _differences(comparison: Comparison) -> list[tuple[str, list[str]]]:
    return [*comparison.settings, *comparison.versions]


def _parting_words(parting: Parting) -> str:
    """Whether and where two runs part."""
    runs = f"{parting.first.path.name} and {parting.second.path.name}"
    if parting.round is None:
        return f"{runs} are equal in all {parting.num_rounds:,} common rounds"
    named = text.listed([f"{name} {a:.7g} / {b:.7g}" for name, a, b in parting.metrics], _MOST_METRICS)
    return f"{runs} first differ in round {parting.round}: {named}"
