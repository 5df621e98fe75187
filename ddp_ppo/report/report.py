"""The report of one run: a self-contained HTML file with its curves, times, evaluations, events and settings.

It reads the run folder, starts nothing and loads no torch. `compare` sets several runs side by side.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from shlex import quote

from ddp_ppo.maths.statistics import bootstrap_interval, iqm, iqm_of_rows
from ddp_ppo.report import run_charts
from ddp_ppo.report.charts import Chart, number
from ddp_ppo.report.page import Html, charts_html, details, heading, link, media, page, table, tiles
from ddp_ppo.runs.metric_table import (
    ELAPSED_SECONDS,
    GRADIENT_STEPS,
    QUESTIONS,
    SCORE,
    SCORE_LENGTH,
    SCORE_STD,
    STAGES,
    seconds_of,
)
from ddp_ppo.runs.reading import NoRoundsError, Run, Settings, default_settings, read_run
from ddp_ppo.text import and_more, duration

_Table = tuple[Sequence[str], Sequence[Sequence[str]]]  # header and rows

REPORT_NAME = "report.html"
_MAX_BYTES = 2_900_000  # of a report, whose pictures are links where they are too large
_BASE64 = 4 / 3  # bytes of text for each of a picture
_MEDIA = ("*.mp4", "*.gif", "*.png")
_MAX_EVENTS = 200
_EVENT_FIELDS = ("time", "round", "event", "rule", "rank")


def write_report(run: Run, out: str | Path | None = None) -> Path:
    """Writes the report, by default as report.html into the run folder, and returns its path; raises OSError."""
    path = run.path / REPORT_NAME if out is None else Path(out)
    temporary = path.parent / f".{path.name}.tmp"
    top, rest = [*_top(run)], [*_sections(run)]
    pictures = _pictures(run, path.parent, _MAX_BYTES - sum(map(len, (*top, *rest))))
    temporary.write_text(page(run.path.name, [*top, *pictures, *rest]), encoding="utf-8")
    os.replace(temporary, path)
    return path


def report_or_warn(folder: Path, say: Callable[[str], None]) -> None:
    """What a run leaves at its end; a report that cannot be made is one line, and the run stays what it is."""
    try:
        write_report(read_run(folder))
    except NoRoundsError:
        return  # the error that ended it has the word
    except Exception as error:  # whatever it is: the training is done and its files are whole
        say(f"warning: no report ({type(error).__name__}: {error}); try again: ddp-ppo report {quote(str(folder))}")


def record(run: Run) -> dict[str, str]:
    """What was run and what came of it: names and words."""
    length = run.setting("rollout_length")
    updates = sum(value for _, value in run.known(GRADIENT_STEPS))
    return {
        "task": f"{run.tasks}, seed {run.setting('seed')}",
        "environments": f"{run.transitions_per_round / length:,.0f}",
        "actors": run.versions.get("actors", str(run.setting("num_actors"))),
        "rollout length": f"{length:,} steps of each environment in a round",
        "total transitions": f"{run.column('env_steps')[-1]:,.0f}",
        "updates": f"{updates:,.0f} gradient steps in {run.num_rounds:,} rounds",
        "training time": duration(run.column(ELAPSED_SECONDS)[-1]),
        "output folder": str(run.path.absolute()),
        "evaluation": _evaluation(run),
        "replay": "\n".join(_later_evaluations(run)) or f"not replayed yet: ddp-ppo evaluate {quote(str(run.path))}",
    }


def verdicts(run: Run) -> dict[str, str]:
    """Two, kept apart: whether the loop ran, and whether the policy reaches the task's standard."""
    steps, planned = run.column("env_steps")[-1], run.setting("total_env_steps")
    loop = "ran to its end" if steps >= planned else f"ended after {steps:,.0f} of {planned:,} environment steps"
    is_finite = not any(event["event"] == "non_finite" for event in run.events)
    loop += ", every value finite" if is_finite else ", a value was not finite (see its events)"
    solved, best = run.setting("solved_return"), max((score for _, score in run.known(SCORE)), default=None)
    if solved is None or best is None:
        return {"loop": loop, "standard": "no solved_return is set" if solved is None else "not evaluated yet"}
    reached = "reached" if best >= solved else "not reached"
    return {"loop": loop, "standard": f"solved_return {number(solved)} {reached}: best evaluation {number(best)}"}


def _top(run: Run) -> Iterator[str]:
    """Verdicts, key figures and learning curves."""
    yield f"<h1>{escape(run.path.name)}</h1>"
    yield from (f"<p><b>{escape(name)}</b> {escape(words)}</p>" for name, words in verdicts(run).items())
    yield tiles(_key_figures(run))
    note = "Over environment steps, with one standard deviation over the episodes of an evaluation."
    yield heading(QUESTIONS["learn"], f"{note} Point at a curve to read all of them at that step.")
    yield charts_html(run_charts.learning_charts(run))


def _sections(run: Run) -> Iterator[str]:
    """The page below its pictures."""
    has_anomalies = any(event["event"] == "anomaly" for event in run.events)
    note = "Red lines are anomalies; the earliest one is where to start." if has_anomalies else ""
    yield heading(QUESTIONS["health"], note)
    yield charts_html(run_charts.health_charts(run))
    yield from _question(QUESTIONS["scale"], run_charts.scale_charts(run))
    yield heading(QUESTIONS["time"])
    yield charts_html(run_charts.time_charts(run)) + table(*_time_table(run), num_names=2)
    yield from _question(QUESTIONS["machine"], run_charts.machine_charts(run))
    if others := list(run_charts.other_charts(run)):
        unchanged = f'<p class="note">The same in every round: {escape(run_charts.unchanged(run))}</p>'
        yield details("More metrics", charts_html(others) + unchanged)
    yield heading("Record") + table((), record(run).items())
    yield heading("Evaluations") + table(*_evaluation_table(run))
    yield heading("Events", "" if run.events else "none") + _event_table(run)
    yield from _configuration(run)
    yield heading("Versions", "" if run.versions else "the run folder does not tell") + table((), run.versions.items())


def _question(words: str, found: Iterator[Chart]) -> Iterator[str]:
    """Its charts below a heading; nothing where the run has none of them."""
    if charts := list(found):
        yield heading(words) + charts_html(charts)


def _key_figures(run: Run) -> Iterator[tuple[str, str]]:
    scores = [score for _, score in run.known(SCORE)]
    if scores:
        yield "best evaluation", number(max(scores))
        yield "last evaluation", number(scores[-1])
    seconds = run.column(ELAPSED_SECONDS)[-1]
    yield "environment steps", f"{run.column('env_steps')[-1]:,.0f}"
    yield "rounds", f"{run.num_rounds:,}"
    yield "training time", duration(seconds)
    yield "steps per second", f"{run.column('env_steps')[-1] / seconds:,.0f}"


def _pictures(run: Run, home: Path, left: float) -> Iterator[str]:
    """Each video of the run folder, or its still and a link where it is too large for the `left` bytes of the page."""
    found = [path for pattern in _MEDIA for path in run.path.rglob(pattern)]
    for stem, paths in groupby(sorted(found, key=lambda path: path.with_suffix("")), lambda path: path.with_suffix("")):
        video, *still = list(paths)
        yield heading(stem.name if video.suffix == ".png" else f"Video: {stem.name}")
        inside = next((path for path in (video, *still) if _BASE64 * path.stat().st_size <= left), None)
        if inside is not None:
            yield media(inside)
            left -= _BASE64 * inside.stat().st_size
        if inside is not video:
            yield link(video, home)


def _time_table(run: Run) -> _Table:
    sums = {name: sum(value for _, value in run.known(seconds_of(name))) for name in run_charts.time_parts(run)}
    total = run.column(ELAPSED_SECONDS)[-1]
    sums["between"] = max(0.0, total - sum(value for _, value in run.known(seconds_of("round"))))
    words = {**STAGES, "between": "start and metrics"}
    rows = [
        (name, words[name], duration(seconds), f"{1e3 * seconds / run.num_rounds:,.1f}", f"{seconds / total:.1%}")
        for name, seconds in sums.items()
    ]
    return ("part", "", "in all", "ms a round", "share"), rows


def _evaluation(run: Run) -> str:
    scores = [score for _, score in run.known(SCORE)]
    if not scores:
        return "none yet"
    episodes = f"{run.setting('eval_episodes')} deterministic episodes"
    return f"mean return {number(scores[-1])} of {episodes} at the end, {number(max(scores))} at best"


def _evaluation_table(run: Run) -> _Table:
    names = ("round", "env_steps", SCORE, SCORE_STD, SCORE_LENGTH)
    known = run.known(SCORE)
    best = max(known, key=lambda one: one[1], default=(-1, math.nan))[0]  # the first of equals, as the best model is
    rows = [(*(number(run.column(name)[row]) for name in names), "best" if row == best else "") for row, _ in known]
    return ("round", "environment steps", "mean return", "std", "mean length", ""), rows


def _later_evaluations(run: Run) -> Iterator[str]:
    """What later evaluations of saved models found, and whether it is what the run had logged."""
    logged = dict(zip(run.column("round"), run.column(SCORE), strict=True))
    for (model, round_index, actions, changed), rows in groupby(
        run.evaluated, lambda row: (row["model"], row["round"], row["actions"], row.get("changed", ""))
    ):
        returns = [float(row["return"]) for row in rows]
        low, high = bootstrap_interval(returns, iqm_of_rows)
        mean = math.fsum(returns) / len(returns)
        is_own = actions == "deterministic" and len(returns) == run.setting("eval_episodes") and not changed
        then = logged.get(float(round_index or "nan"), math.nan) if is_own else math.nan
        same = (
            ""
            if math.isnan(then)
            else ", as logged"
            if math.isclose(mean, then, rel_tol=1e-12)
            else f", logged {number(then)}"
        )
        spread = "" if math.isnan(low) else f", IQM {number(iqm(returns))} [{number(low)}, {number(high)}]"
        yield f"{model}, {len(returns)} {actions} episodes: mean return {number(mean)}{same}{spread}"


def _event_table(run: Run) -> str:
    """The earliest events, each with all that it says."""
    rows = [
        (
            event["round"],
            f"{run_charts.env_steps_at(run, event['round']):,.0f}",
            event.get("rule", event["event"]),
            "; ".join(str(value) for name, value in event.items() if name not in _EVENT_FIELDS),
            event["time"],
        )
        for event in run.events[:_MAX_EVENTS]
    ]
    header = ("round", "environment steps", "event", "what was seen; what to check", "time")
    more = and_more(run.events, _MAX_EVENTS)
    shown = table(header, rows, num_names=len(header)) if rows else ""
    return shown + (f"<p>{more} in events.jsonl</p>" if more else "")


def _configuration(run: Run) -> Iterator[str]:
    """What differs from the defaults, then all of it, then what a resume changed."""
    defaults, header = default_settings(), ("setting", "value", "default", "from")
    rows = {
        key: (key, _code(given.value), _code(defaults.get(key, "no longer a setting")), given.origin)
        for key, given in run.settings.items()
    }
    yield heading("Configuration", "What differs from the defaults.")
    chosen = [row for key, row in rows.items() if run.settings[key].value != defaults.get(key)]
    yield table(header, chosen, num_names=len(header))
    yield details("Every setting", table(header, rows.values(), num_names=len(header)))
    for round_index, earlier in sorted(run.earlier.items()):
        changes = [(key, _code(old), _code(new)) for key, old, new in changed(earlier, run.settings)]
        yield heading(f"Until round {round_index:,}", "Settings that were others before the run was resumed.")
        yield table(("setting", "until then", "now"), changes, num_names=3)


def changed(before: Settings, after: Settings) -> Iterator[tuple[str, str, str]]:
    """(setting, value before, value after) of each one that differs; "-" where there is none."""
    for key in {**before, **after}:
        old, new = (settings[key].value if key in settings else "-" for settings in (before, after))
        if old != new:
            yield key, old, new


def _code(text: str) -> Html:
    return Html(f"<code>{escape(text)}</code>")
