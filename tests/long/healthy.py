"""Every packaged configuration trains without an anomaly; healthy:NAME@SHARE for one, and for a share of its steps.

A fifth of the steps without a share; healthy:@1 trains all of them to their end, about half an hour on two free cores.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ddp_ppo.config.load import load_config
from tests.long.report import SKIPPED, Row, newest_run, start, verdict
from tests.support.process import ROOT
from tests.support.results import events_of

SHARE = 0.2
MOST_STEPS = 1_000_000  # of a complete run; multi_gpu.yaml has 20 million
LIMIT_SECONDS = 3600.0
NO_WEIGHTS = "ddp-ppo disco-weights"  # what a run without DiscoRL's published weights says


def run(folder: Path, part: str = "") -> Iterator[Row]:
    """One row for each configuration, with its anomalies and other events."""
    name, _, share = part.partition("@")
    for path in sorted((ROOT / "configs").glob("*.yaml")):
        if path.stem != "base" and name in path.stem:
            yield check(folder / path.stem, path, float(share or SHARE))


def check(folder: Path, path: Path, share: float) -> Row:
    """Trains one configuration for a share of its steps."""
    steps = int(share * min(MOST_STEPS, load_config(path).total_env_steps))
    with start(folder, path, f"total_env_steps={steps}") as program:
        ended = program.end(LIMIT_SECONDS)
    if NO_WEIGHTS in ended.err:
        return Row(SKIPPED, path.stem, "DiscoRL's weights are missing")
    home = newest_run(folder)
    if ended.code or home is None:
        return Row(verdict(False), path.stem, (ended.err.splitlines() or ["no run"])[-1])
    found = [
        f"round {event['round']}: {event.get('rule', event['event'])}: {event.get('seen', '')}"
        for event in events_of(home)
    ]
    figures = "; ".join(found) or f"{steps:,} steps, {ended.seconds:.0f} s, no event"
    return Row(verdict(not found), path.stem, figures)
