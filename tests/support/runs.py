"""Run folders made by hand, for tests of what reads them, and the metrics of a healthy round."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from ddp_ppo.config.settings import Config
from ddp_ppo.config.writing import dump_effective
from ddp_ppo.learners.ppo.metrics import PPO_METRICS
from ddp_ppo.runs.metric_table import METRICS, TABLE_FILE, MetricTable, save_table

COLUMNS = ("train/policy_loss", "train/value_loss", "train/approx_kl", "train/gradient_steps", "eval/return_std")

HEALTHY = {
    "train/approx_kl": 0.01,
    "train/value_loss": 0.5,
    "train/explained_variance": 0.6,
    "train/clip_fraction": 0.15,
    "train/action_std": 0.6,
    "rollout/episodes": 4.0,
    "rollout/episode_return_mean": 100.0,
    "rollout/episode_length_mean": 200.0,
    "rollout/terminated_fraction": 0.5,
    "eval/return_mean": math.nan,
    "time/steps_per_second": 5000.0,
    "time/sample_seconds": 0.03,
    "time/annotate_seconds": 0.001,
    "time/idle_seconds": 0.002,
}
OF_EVERY_LEARNER = {"buffer_size", "train/gradient_steps", "time/transfer_seconds"}  # names of metrics
SETTLED = 30  # rounds after which "usual" is known


def write_run(
    folder: Path,
    config: Config,
    metrics: Mapping[str, Sequence[float | None]],
    *,
    events=(),
    versions=None,
    name="tiny",
    table: MetricTable = (*METRICS, *PPO_METRICS),
) -> Path:
    """A run folder with these metrics, a value a round and None where there was nothing to report.

    Each round has as many environment steps as the configuration says, and takes a second.
    """
    num_rounds = len(next(iter(metrics.values())))
    steps = config.transitions_per_round(1)
    columns: dict[str, Sequence[float | None]] = {
        "round": range(1, num_rounds + 1),
        "env_steps": [steps * (index + 1) for index in range(num_rounds)],
        **{column: [0.5] * num_rounds for column in COLUMNS},
        "time/elapsed_seconds": [float(index + 1) for index in range(num_rounds)],
        "time/round_seconds": [1.0] * num_rounds,
        **metrics,
    }
    folder.mkdir(parents=True)
    with (folder / "metrics.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    (folder / "config.yaml").write_text(dump_effective(config))
    save_table(folder / TABLE_FILE, table)
    (folder / "lock").write_text(f"\n{name}\n")
    (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    (folder / "versions.json").write_text(json.dumps(versions or {"torch": "1.2.3"}))
    return folder
