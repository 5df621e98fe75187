"""From measured runs to the numbers, the table and the files of `bench/peers.py`; standard library only.

A run is what a peer script prints: steps_per_second, seconds, first_return, return, num_envs, versions.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workload import NUM_EPISODES, SHAPES, WARMUP_ROUNDS, Work

OWN = "ours"
LEARNED_GAIN = 100.0  # of the mean return over a run; means of ten episodes under random actions vary by about 30

Run = Mapping[str, Any]


def summary(pairs: Mapping[str, Sequence[tuple[Run, Run]]]) -> dict[str, Any]:
    """Numbers of all trainers from the pairs (ours, peer) of neighbouring runs by peer."""
    runs = {OWN: [own for pair in pairs.values() for own, _ in pair]}
    runs |= {name: [peer for _, peer in pair] for name, pair in pairs.items()}
    runs = {name: found for name, found in runs.items() if found}
    return {
        "ratios": {name: ratios(pair) for name, pair in pairs.items() if pair},
        "steps_per_second": {name: spread(_speeds(found)) for name, found in runs.items()},
        "learning": {name: learned(found) for name, found in runs.items()},
        "num_envs": {name: found[0]["num_envs"] for name, found in runs.items()},
        "versions": {name: found[0]["versions"] for name, found in runs.items()},
        "runs": {name: [round(speed, 1) for speed in _speeds(found)] for name, found in runs.items()},
    }


def _speeds(runs: Sequence[Run]) -> list[float]:
    return [run["steps_per_second"] for run in runs]


def ratios(pair: Sequence[tuple[Run, Run]]) -> dict[str, float]:
    """Our speed over the peer's, each time in two runs that followed each other."""
    return spread([own["steps_per_second"] / peer["steps_per_second"] for own, peer in pair])


def spread(values: Sequence[float]) -> dict[str, float]:
    """Smallest, middle and largest value."""
    return {"min": min(values), "median": statistics.median(values), "max": max(values)}


def learned(runs: Sequence[Run]) -> dict[str, Any]:
    """Medians of the first and the last episodes' return, and whether every run learned; None where none can tell."""
    found = [(run["first_return"], run["return"]) for run in runs if run["return"] is not None]
    if not found:
        return {"first_return": None, "return": None, "has_learned": None}
    first, last = (statistics.median(column) for column in zip(*found, strict=True))
    return {"first_return": first, "return": last, "has_learned": all(b - a >= LEARNED_GAIN for a, b in found)}


def markdown(result: Mapping[str, Any]) -> str:
    """The result as a table, with the work, the machine, the versions and what failed."""
    shape = SHAPES[result["shape"]]
    header = ("trainer", "environments", "steps/s min", "median", "max", "ours / peer min", "median", "max")
    header += (f"return of the first -> last {NUM_EPISODES} episodes", "learned")
    lines = [
        f"{shape.env_id}, shape `{result['shape']}`: {shape.samples} transitions per round, "
        f"mini-batch {shape.minibatch_size}, "
        f"{Work.num_epochs} epochs, hidden layers {list(shape.hidden_sizes)}. {result['steps']:,} steps per run, "
        f"{result['repeats']} pair(s) of runs per peer, {result['threads']} torch thread(s) for peers. "
        f"Sampling and learning; start-up and the first {WARMUP_ROUNDS} rounds are excluded.",
        "",
        _row(header),
        _row(["---"] * len(header)),
    ]
    for name in result["steps_per_second"]:
        ratio = result["ratios"].get(name)
        cells = [name, str(result["num_envs"][name]), *_numbers(result["steps_per_second"][name], ",.0f")]
        cells += _numbers(ratio, ".1f") if ratio else [""] * 3
        lines.append(_row([*cells, *_learning_cells(result["learning"][name])]))
    lines += ["", *(f"- {name}: {why}" for name, why in result["failures"].items())]
    lines += [f"- Machine: {', '.join(f'{key} {value}' for key, value in result['machine'].items())}"]
    lines += [f"- {n}: {', '.join(f'{k} {v}' for k, v in found.items())}" for n, found in result["versions"].items()]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _numbers(found: Mapping[str, float], form: str) -> list[str]:
    return [format(found[key], form) for key in ("min", "median", "max")]


def _learning_cells(found: Mapping[str, Any]) -> list[str]:
    if found["return"] is None:
        return ["too few episodes", "unknown"]
    return [f"{found['first_return']:.0f} -> {found['return']:.0f}", "yes" if found["has_learned"] else "NO"]


def write(result: Mapping[str, Any], out: Path, image: Path | None) -> None:
    """Writes the table with the image, where there is one, and all numbers as JSON in a comment."""
    text = (
        f"# Speed compared with other trainers: {result['shape']}\n\nMade by `bench/peers.py`.\n\n{markdown(result)}\n"
    )
    if image:
        text += f"\n![steps per second of each trainer]({image.name})\n"
    out.write_text(text + f"\n<!-- {json.dumps(result)} -->\n")
