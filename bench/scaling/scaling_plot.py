"""Draws the result of `bench/scaling.py` with matplotlib: the runs beside the cost model, and larger machines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def plot(result: Mapping[str, Any], path: Path) -> None:
    """Measured and predicted speed of the runs, and the predicted speed of larger machines."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10.0, 4.0), dpi=150, layout="constrained")
    runs = [run for run in result["runs"] if not run["is_check"]]
    names = ["{} x {} x {}\nmini-batch {}".format(*run["key"][:3], run["key"][4]) for run in runs]
    left.bar(range(len(runs)), [run["steps_per_second"] / 1e3 for run in runs], color="#9db7d5", label="measured")
    predicted = [run["predicted_steps_per_second"] / 1e3 for run in runs]
    left.plot(range(len(runs)), predicted, "o", color="#1f4e8c", label="cost model")
    left.set_xticks(range(len(runs)), names, rotation=90, fontsize=7)
    left.set_ylabel("thousand steps/s")
    left.set_title(f"{result['machine']['cores']} cores: learners x actors x environments", fontsize=10, loc="left")
    left.legend(frameon=False)
    for shape in dict.fromkeys(one["shape"] for one in result["curves"]):
        points = [(one["num_learners"], one["steps_per_second"]) for one in result["curves"] if one["shape"] == shape]
        right.loglog(*zip(*points, strict=True), "-", label=shape)
        right.loglog([n for n, _ in points], [n * points[0][1] for n, _ in points], ":", color="#888888", linewidth=0.8)
    right.set_xlabel("learners")
    right.set_ylabel("predicted steps/s")
    right.set_title("larger machines (dotted: no loss)", fontsize=10, loc="left")
    right.legend(frameon=False, fontsize=8)
    for axes in (left, right):
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)
    pyplot.close(figure)
