"""The charts of one run: every metric of it once, in the order of three questions. Torch-free.

Does it learn, is it healthy, where does time go; what is left follows, so that no metric of a new kind is lost.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from ddp_ppo.report.charts import Chart, Series, number
from ddp_ppo.runs.reading import Run
from ddp_ppo.runs.tensorboard import STAGES

SCORE = "eval/return_mean"
VALUE_LOSS = "train/value_loss"  # over orders of magnitude: drawn on a logarithmic axis
REWARD_TERMS = "reward/"
_MAX_TIME_POINTS = 120
_NOT_DRAWN = {"round", "env_steps", "buffer_size", "time/elapsed_seconds", "time/round_seconds", "eval/return_std"}


class _Plot(NamedTuple):
    """One chart: its title, the metrics in it by their label, and a setting that is drawn as a line."""

    title: str
    metrics: Mapping[str, str]
    mark: str = ""
    is_log: bool = False


_LEARNING = (
    _Plot("Return", {"training": "rollout/episode_return_mean", "evaluation": SCORE}, mark="solved_return"),
    _Plot("Episode length", {"training": "rollout/episode_length_mean", "evaluation": "eval/length_mean"}),
)
_HEALTH = (
    _Plot("KL divergence", {"mean of the last epoch": "train/approx_kl"}, mark="target_kl"),
    _Plot("Clip fraction", {"share of samples outside": "train/clip_fraction"}),
    _Plot("Loss", {"of the learner": "train/loss"}),
    _Plot("Value loss", {"squared error": VALUE_LOSS}, is_log=True),
    _Plot("TD error", {"mean": "train/td_error"}),
    _Plot("Explained variance", {"of the critic": "train/explained_variance"}),
    _Plot("Policy loss", {"clipped surrogate": "train/policy_loss"}),
    _Plot("Entropy", {"nats": "train/entropy"}),
    _Plot("Action std", {"mean over dimensions": "train/action_std"}),
    _Plot("Gradient norm", {"before clipping": "train/grad_norm"}),
    _Plot("Learning rate", {"Adam's step size": "train/learning_rate"}),
)
_SPEED = _Plot("Steps per second", {"all learners": "time/steps_per_second"})


def learning_charts(run: Run) -> Iterator[Chart]:
    """Returns, lengths and the terms of the reward."""
    yield from (_chart(run, plot) for plot in _LEARNING)
    terms = {name.removeprefix(REWARD_TERMS): name for name in run.columns if name.startswith(REWARD_TERMS)}
    if terms:
        yield _chart(run, _Plot("Terms of the reward, mean of a step", terms))


def health_charts(run: Run) -> Iterator[Chart]:
    """What the learner did in each round."""
    return (_chart(run, plot) for plot in _HEALTH)


def time_charts(run: Run) -> Iterator[Chart]:
    """How the time of a round is split, and the speed that comes of it."""
    parts = {name: run.column(f"time/{name}_seconds") for name in time_parts(run)}
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
    yield _chart(run, _SPEED)


def other_charts(run: Run) -> Iterator[Chart]:
    """Every metric that has no place above and does change."""
    for name in _others(run):
        if len({value for _, value in run.known(name)}) > 1:
            yield _chart(run, _Plot(name, {"": name}))


def unchanged(run: Run) -> str:
    """The other metrics, which have the same value in every round."""
    values = {name: {value for _, value in run.known(name)} for name in _others(run)}
    return ", ".join(f"{name} {number(*found)}" for name, found in values.items() if len(found) == 1)


def time_parts(run: Run) -> list[str]:
    """Names of what a round consists of."""
    return [*STAGES] if "time/sample_seconds" in run.columns else []


def _others(run: Run) -> list[str]:
    plots = (*_LEARNING, *_HEALTH, _SPEED)
    drawn = _NOT_DRAWN | {name for plot in plots for name in plot.metrics.values()}
    drawn |= {f"time/{name}_seconds" for name in time_parts(run)}
    return [name for name in run.columns if name not in drawn and not name.startswith(REWARD_TERMS)]


def _chart(run: Run, plot: _Plot) -> Chart:
    value = run.setting(plot.mark)
    return Chart(
        plot.title,
        [_series(run, label, name) for label, name in plot.metrics.items()],
        is_log=plot.is_log,
        marks=[] if value is None else [(value, f"{plot.mark} {number(value)}")],
        moments=sorted({env_steps_at(run, event["round"]) for event in run.events if event["event"] == "anomaly"}),
    )


def _series(run: Run, label: str, name: str) -> Series:
    known, steps = run.known(name), run.column("env_steps")
    y = [value for _, value in known]
    if name != SCORE:
        return Series(label, [steps[row] for row, _ in known], y, has_dots=name.startswith("eval/"))
    spread = [run.column("eval/return_std")[row] for row, _ in known]
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
