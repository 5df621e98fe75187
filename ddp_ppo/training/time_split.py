"""Where the time of a round goes, as metrics in which no second counts twice."""

from __future__ import annotations

from collections.abc import Mapping

from ddp_ppo.runs.metric_table import ELAPSED_SECONDS, STEPS_PER_SECOND, seconds_of


def with_time_split(
    row: Mapping[str, float], seconds: Mapping[str, float], *, num_steps: int, elapsed_seconds: float
) -> dict[str, float]:
    """A round's metrics with its `time/*` metrics behind them.

    Args:
        row: with the transfer time, if the learner reports one, and the idle time; they move to the others.
        seconds: sample (with annotate), annotate, train (with transfer), sync, record, and the round in all.
        num_steps: environment steps of all learners.
    """
    transfer = row.get(seconds_of("transfer"), 0.0)
    split = {
        "sample": max(0.0, seconds["sample"] - seconds["annotate"]),  # with overlap most of it passes unseen
        "annotate": seconds["annotate"],
        "transfer": transfer,
        "train": seconds["train"] - transfer,
        "sync": seconds["sync"],
        "record": seconds["record"],
        "idle": row[seconds_of("idle")],
        "round": seconds["round"],
    }
    times = {
        STEPS_PER_SECOND: num_steps / seconds["round"],
        ELAPSED_SECONDS: elapsed_seconds,
        **{seconds_of(name): value for name, value in split.items()},
    }
    return {name: value for name, value in row.items() if name not in times} | times
