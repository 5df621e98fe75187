"""`compare --against PEER`: another trainer on the same tasks, trained by a script and read back as runs.

Such a script trains with another library, so it lies in bench/peers/ of a checkout and not in this package. It takes
run folders, leaves a run folder for each, writes their paths to the file of `--json` as a list, and says on stderr in
one line what is wrong where it ends with another exit status than 0.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ddp_ppo.config.settings import ConfigError
from ddp_ppo.report.groups import group_runs
from ddp_ppo.runs.reading import Run, read_run

PEERS = Path(__file__).resolve().parents[2] / "bench" / "peers"


def add_peer(runs: Sequence[Run], ignored: Sequence[str], peer: str) -> list[Run]:
    """The runs, and one of the peer's for each seed of the first group of other runs; `ignored` as in `group_runs`.

    Raises:
        ConfigError: the peer's script is not here, or all runs are its own.
        SystemExit: the script failed with this exit status, and has said why.
    """
    ours = [run for run in runs if run.setting("learner") != peer]
    if not ours:
        raise ConfigError(f"--against {peer}: these are all its own runs; name one of ours too")
    theirs = _trained(peer, group_runs(ours, ignored)[0].runs)
    return [*runs, *(run for run in theirs if not any(run.path.samefile(other.path) for other in runs))]


def _trained(peer: str, runs: Sequence[Run]) -> list[Run]:
    script = PEERS / f"{peer}_run.py"
    if not script.is_file():
        what_to_do = "an installed ddp-ppo does not bring it, run compare in a checkout of the repository"
        raise ConfigError(f"--against {peer}: {script} is missing; {what_to_do}")
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "folders.json")
        words = [script, *(run.path for run in runs), "--json", result]
        status = subprocess.run([sys.executable, *map(str, words)]).returncode
        if status:
            raise SystemExit(status)
        return [read_run(path) for path in json.loads(result.read_text())]
