"""`ddp-ppo check config.yaml`: whether an environment and a configuration are fit to be trained, stage by stage.

Each stage passes or fails with figures and seconds; a note is worth a look and fails nothing. After a stage that
cannot go on the rest is not tried. Two verdicts are kept apart: that the loop runs is decided here; whether a policy
reaches the task's standard (`solved_return`, or the task's own) by a training.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ddp_ppo.check.interface import check_interface
from ddp_ppo.check.model import check_model
from ddp_ppo.check.motion import (
    check_first_observation,
    check_small_actions,
    check_zero_actions,
)
from ddp_ppo.check.random import check_random_actions
from ddp_ppo.check.repeat import check_independence, check_repeatability
from ddp_ppo.check.resources import check_resources
from ddp_ppo.check.training import (
    check_checkpoint,
    check_evaluation,
    check_export,
    check_replay,
    check_scale_up,
    check_throughput,
    check_training,
)
from ddp_ppo.check.trial import Report, SkipStage, StageError, Trial
from ddp_ppo.config.settings import Config, ConfigError
from ddp_ppo.errors import EnvError
from ddp_ppo.processes.lifetime import time_limit
from ddp_ppo.text import and_more, table
from ddp_ppo.training.plan import prepare
from ddp_ppo.training.plan_text import plan_lines

_MAX_ROWS = 128  # of a table on the console; JSON has all of them
_INDENT = " " * 6


class Stage(NamedTuple):
    """One row of the table below."""

    name: str
    run: Callable[[Trial, Report], None]
    is_limited: bool = True  # by actor_timeout_seconds: the environment runs in this process, where nobody replaces it


STAGES = (
    Stage("interface", check_interface),
    Stage("model", check_model),
    Stage("first observation", check_first_observation),
    Stage("zero actions", check_zero_actions),
    Stage("small actions", check_small_actions),
    Stage("random actions", check_random_actions),
    Stage("repeatability", check_repeatability),
    Stage("independence", check_independence),
    Stage("training", check_training, False),
    Stage("checkpoint", check_checkpoint, False),
    Stage("replay", check_replay),
    Stage("evaluation", check_evaluation),
    Stage("export", check_export),
    Stage("scale-up", check_scale_up, False),
    Stage("resources", check_resources),
    Stage("throughput", check_throughput, False),
)


@dataclass(frozen=True)
class StageResult:
    """One stage: its verdict "PASS", "FAIL" or "SKIP", what it found, and whether the next ones make sense."""

    name: str
    verdict: str
    seconds: float
    report: Report
    is_end: bool = False


@dataclass(frozen=True)
class CheckResult:
    """All stages that were tried, in order, and the names of those that were not."""

    stages: tuple[StageResult, ...]
    left_out: tuple[str, ...]

    @property
    def has_passed(self) -> bool:
        """Whether no stage failed."""
        return all(stage.verdict != "FAIL" for stage in self.stages)

    @property
    def standard(self) -> str:
        """How far the policy of the short training is from the task's standard; empty if it was not evaluated."""
        figures = {stage.name: stage.report.figures for stage in self.stages}
        return str(figures.get("evaluation", {}).get("standard", ""))

    @property
    def seconds(self) -> float:
        """What it took."""
        return sum(stage.seconds for stage in self.stages)


def check(
    config: Config,
    *,
    environ: Mapping[str, str],
    say: Callable[[str], None],
    stages: Sequence[Stage] = STAGES,
) -> CheckResult:
    """Runs the stages; each is said as it ends.

    Raises:
        ConfigError, EnvError: the configuration cannot be used at all.
    """
    started = time.perf_counter()
    plan = prepare(config, environ=environ)
    report = Report({**plan_lines(plan)}, notes=list(plan.notes))
    results = [StageResult("configuration", "PASS", time.perf_counter() - started, report)]
    say(stage_text(results[0]))
    with tempfile.TemporaryDirectory(prefix="ddp_ppo_check_") as folder:
        trial = Trial(plan, environ, Path(folder))
        for stage in stages:
            results.append(_run(stage, trial))
            say(stage_text(results[-1]))
            if results[-1].is_end:
                break
    return CheckResult(tuple(results), tuple(stage.name for stage in stages[len(results) - 1 :]))


def _run(stage: Stage, trial: Trial) -> StageResult:
    report, started, verdict, is_end = Report(), time.perf_counter(), "PASS", False
    seconds = trial.plan.config.actor_timeout_seconds if stage.is_limited else 0.0
    try:
        with time_limit(seconds, TimeoutError(f"no answer within actor_timeout_seconds={seconds:g}")):
            stage.run(trial, report)
    except SkipStage as reason:
        verdict, report.notes = "SKIP", [str(reason)]
    except (StageError, EnvError, ConfigError, TimeoutError) as error:
        report.faults.append(str(error))
        is_end = True
    verdict = "FAIL" if report.faults else verdict
    return StageResult(stage.name, verdict, time.perf_counter() - started, report, is_end)


def stage_text(result: StageResult) -> str:
    """One stage for a person: its verdict first, faults and notes last."""
    report = result.report
    lines = [f"{result.verdict}  {result.name} ({result.seconds:.1f} s)"]
    width = max(map(len, report.figures), default=0)
    lines += [f"{_INDENT}{name:{width}}  {value}" for name, value in report.figures.items()]
    for name, rows in report.tables.items():
        lines += [f"{_INDENT}{name}:", *(f"{_INDENT}  {line}" for line in _table(rows))]
    lines += [f"{_INDENT}note: {note}" for note in report.notes]
    lines += [f"{_INDENT}FAULT: {fault}" for fault in report.faults]
    return "\n".join(lines)


def _table(rows: list[dict[str, Any]]) -> list[str]:
    """Columns with nothing in them are left out, and so is what goes beyond the first rows."""
    names = [name for name in rows[0] if any(str(row[name]) for row in rows)] if rows else []
    shown = [names, *([str(row[name]) for name in names] for row in rows[:_MAX_ROWS])]
    more = and_more(rows, _MAX_ROWS)
    return table(shown, num_left=len(names)).splitlines() + ([f"... {more}, see --json"] if more else [])


def closing_text(result: CheckResult, config_path: str) -> str:
    """The two verdicts and the next useful command; config_path with the words behind it."""
    verdicts = [stage.verdict for stage in result.stages]
    counts = f"{verdicts.count('PASS')} passed, {verdicts.count('FAIL')} failed, {verdicts.count('SKIP')} skipped"
    lines = [f"{counts} in {result.seconds:.1f} s"]
    if result.left_out:
        lines.append(f"not tried: {', '.join(result.left_out)}")
    if not result.has_passed:
        failed = ", ".join(stage.name for stage in result.stages if stage.verdict == "FAIL")
        lines.append(f"fix first: {failed}; then: ddp-ppo check {config_path}")
        return "\n".join([*lines, f"step through the environment, breakpoints work there: ddp-ppo step {config_path}"])
    lines.append("the loop runs; whether the policy reaches the task's standard only a training can tell")
    lines += [f"standard       {result.standard}"] if result.standard else []
    return "\n".join([*lines, f"train it       ddp-ppo train {config_path}"])


def check_document(result: CheckResult) -> dict[str, Any]:
    """The same as plain values."""
    stages = [
        {"name": stage.name, "verdict": stage.verdict, "seconds": round(stage.seconds, 3), **asdict(stage.report)}
        for stage in result.stages
    ]
    verdict = "PASS" if result.has_passed else "FAIL"
    return {
        "verdict": verdict,  # the loop's
        "standard": result.standard,
        "seconds": round(result.seconds, 3),
        "stages": stages,
        "not_tried": [*result.left_out],
    }
