"""What a check says of one case, and the programs that checks start."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from ddp_ppo.runs.checkpoint import find_checkpoint
from ddp_ppo.runs.files import CheckpointError
from tests.support.process import Program, read_csv, train_words, without_times

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


class Row(NamedTuple):
    """One line of a check's table."""

    verdict: str
    case: str
    figures: str


def verdict(is_right: bool) -> str:
    """The word for it."""
    return PASSED if is_right else FAILED


def start(folder: Path, *words: object, nproc: int | None = None, environ: dict[str, str] | None = None) -> Program:
    """A training with `folder` as current folder and a temporary folder of its own beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder.parent / f"{folder.name}.tmp"
    temporary.mkdir(exist_ok=True)
    # Without these torch would keep compiled code in the temporary folder.
    return Program(
        *train_words(*words, nproc=nproc), folder=folder, environ={"TMPDIR": str(temporary), **(environ or {})}
    )


def newest_run(folder: Path) -> Path | None:
    """The run folder in `folder`/output that was made last."""
    runs = [path for path in (folder / "output").glob("*-*") if path.is_dir()]
    return max(runs, key=lambda path: path.stat().st_mtime_ns) if runs else None


def fingerprint(run: Path | None) -> tuple[int, str, str]:
    """Round, sha256 of all ranks' parameters and statistics, and sha256 of the CSV but for its times."""
    if run is None:
        return 0, "", ""
    try:
        content = find_checkpoint(run)[1]
    except CheckpointError:
        return 0, "", ""
    digest = hashlib.sha256()
    for rank in content["ranks"]:
        for name in ("parameters", "exp_avg", "exp_avg_sq"):
            digest.update(rank["learner"][name].tobytes())
    for state in (content["obs_rms_state"], content["return_rms_state"]):
        digest.update(state["mean"].tobytes() + state["var"].tobytes() + str(state["count"]).encode())
    rows = without_times(read_csv(run / "metrics.csv"))
    evaluated = (
        "eval/return_mean",
        "eval/return_std",
        "eval/length_mean",
    )  # a run that is asked to stop evaluates once more
    rows = [{name: cell for name, cell in row.items() if name not in evaluated} for row in rows]
    return content["round"], digest.hexdigest(), hashlib.sha256(repr(rows).encode()).hexdigest()
