"""Draws the result of peers.py: `plot.py result.json image.png`, median steps/s as bars, min to max as whiskers."""

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

result = json.loads(Path(sys.argv[1]).read_text())
speeds = sorted(result["steps_per_second"].items(), key=lambda item: item[1]["median"])
figure, axes = pyplot.subplots(figsize=(8, 1.2 + 0.45 * len(speeds)), layout="constrained")
for row, (name, speed) in enumerate(speeds):
    ratio = result["ratios"].get(name)
    low, high = speed["median"] - speed["min"], speed["max"] - speed["median"]
    color = "tab:blue" if ratio is None else "tab:gray"
    axes.barh(row, speed["median"], xerr=[[low], [high]], color=color, error_kw={"capsize": 3})
    label = f"{speed['median']:,.0f}" + (f"  (ours is {ratio['median']:.1f}x)" if ratio else "")
    axes.annotate(label, (speed["max"], row), xytext=(6, 0), textcoords="offset points", va="center")
axes.set_yticks(range(len(speeds)), [name for name, _ in speeds])
axes.set_xlim(0, 1.25 * speeds[-1][1]["max"])
axes.set_xlabel("environment steps per second, sampling and learning")
about = result["machine"]
axes.set_title(f"PPO on HalfCheetah-v5, {result['shape']}: {about['cpu']}, {about['cores']} cores", fontsize=10)
axes.spines[["top", "right"]].set_visible(False)
figure.savefig(sys.argv[2], dpi=150)
