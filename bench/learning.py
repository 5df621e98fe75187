#!/usr/bin/env python3
"""Trains a configuration with several seeds, one after another, and shows what it learned.

    python bench/learning.py configs/half_cheetah.yaml --seeds 1,2,3 --plot docs/half_cheetah.png

Prints one line a seed, the median, and a JSON object as the last line. The plot needs matplotlib. `--reach 475` adds
the environment steps at which the mean return of the last 20 training episodes first was so high.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def steps_to_reach(training: list[tuple[int, float, int]], level: float, num_episodes: int = 20) -> int | None:
    """Environment steps at which the mean return of the last episodes first was at least `level`; None for never."""
    last: deque[float] = deque(maxlen=num_episodes)
    for steps, mean, count in training:
        last += [mean] * count
        if len(last) == num_episodes and statistics.mean(last) >= level:
            return steps
    return None


def train(config: Path, seed: int, overrides: list[str], output: Path) -> dict[str, Any]:
    """One run in a process of its own; its result and the columns that the plot needs."""
    result_file = output / f"seed{seed}.json"
    metrics = output / f"seed{seed}.csv"
    words = [f"seed={seed}", f"output_dir={output}", f"metrics_path={metrics}", *overrides]
    start = time.perf_counter()
    command = [sys.executable, str(ROOT / "train.py"), str(config), *words, "--json", str(result_file)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - start
    result = json.loads(result_file.read_text())
    with open(metrics, newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        "seed": seed,
        "eval_return": result["eval_return"],
        "best_return": result["best_return"],
        "env_steps": result["env_steps"],
        "seconds": seconds,
        "steps_per_second": result["env_steps"] / float(rows[-1]["time/elapsed_seconds"]),
        "evaluations": [(int(r["env_steps"]), float(r["eval/return_mean"])) for r in rows if r["eval/return_mean"]],
        "training": [
            (int(r["env_steps"]), float(r["rollout/episode_return_mean"]), int(r["rollout/episodes"]))
            for r in rows
            if r["rollout/episode_return_mean"]
        ],
    }


def plot(runs: list[dict[str, Any]], title: str, path: Path) -> None:
    """Evaluation return over environment steps, one line a seed and their median."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.0, 3.6), dpi=150)
    for run in runs:
        steps, returns = zip(*run["evaluations"], strict=True)
        axes.plot([step / 1e6 for step in steps], returns, color="#9db7d5", linewidth=1.2)
        axes.annotate(
            f"seed {run['seed']}",
            (steps[-1] / 1e6, returns[-1]),
            xytext=(4, -3),
            textcoords="offset points",
            fontsize=7,
            color="#5b7ea6",
        )
    columns = list(zip(*(run["evaluations"] for run in runs), strict=False))
    medians = [statistics.median(value for _, value in column) for column in columns]
    axes.plot([column[0][0] / 1e6 for column in columns], medians, color="#1f4e8c", linewidth=2.2, label="median")
    axes.set_xlabel("environment steps (million)")
    axes.set_ylabel("evaluation return")
    axes.set_title(title, fontsize=10, loc="left")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper left")
    figure.tight_layout()
    figure.savefig(path)


def main() -> int:
    """Runs the seeds and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--reach", type=float, metavar="RETURN")
    options = parser.parse_args()
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in map(int, options.seeds.split(",")):
            run = train(options.config, seed, options.overrides, Path(folder))
            runs.append(run)
            print(
                f"seed {seed}: return {run['eval_return']:.1f} (best {run['best_return']:.1f}), "
                f"{run['env_steps']:,} steps in {run['seconds']:.1f} s, {run['steps_per_second']:,.0f} steps/s",
                flush=True,
            )
            if options.reach is not None:
                run["steps_to_reach"] = steps_to_reach(run["training"], options.reach)
                print(f"  mean of 20 training episodes >= {options.reach:g}: after {run['steps_to_reach']} steps")
    summary = {
        "config": options.config.stem,
        "median_return": statistics.median(run["eval_return"] for run in runs),
        "median_steps_per_second": statistics.median(run["steps_per_second"] for run in runs),
        "runs": [{k: v for k, v in run.items() if k not in ("evaluations", "training")} for run in runs],
    }
    print(f"median return {summary['median_return']:.1f}")
    if options.plot:
        title = f"{options.config.stem}: deterministic evaluation, {len(runs)} seeds"
        plot(runs, title, options.plot)
    print(json.dumps(summary))
    return 0


if __name__ == "__main__":
    sys.exit(main())
