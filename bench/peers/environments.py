"""The peers: what each needs, its own virtual environment in `.venvs/`, and how a command is run to its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parents[1]
ROOT = BENCH.parent
VENVS = BENCH / ".venvs"

RUN_TIMEOUT_SECONDS = 3600.0
MUJOCO = "gymnasium[mujoco]"


@dataclass(frozen=True)
class Peer:
    """What a peer needs: packages, and which of them `constraints.txt` pins (None: all, those of dependencies too)."""

    packages: tuple[str, ...]
    pinned: tuple[str, ...] | None = None


# The releases that these scripts were written for; what constraints.txt names is pinned there.
PEERS = {
    "sb3": Peer(("stable-baselines3", MUJOCO)),
    "cleanrl": Peer(("torch", MUJOCO)),
    "skrl": Peer(("skrl==2.1.1", "torch", MUJOCO)),
    "rsl_rl": Peer(("rsl-rl-lib==5.5.1", "torch", MUJOCO)),
    "tianshou": Peer(("tianshou==2.0.1", MUJOCO), pinned=("torch", "gymnasium", "mujoco", "numpy")),
    "torchrl": Peer(("torchrl==0.14.1", MUJOCO)),
    "envpool": Peer(("envpool==1.2.5", "torch", MUJOCO)),
    "sample_factory": Peer(("sample-factory==2.1.1", MUJOCO, "mujoco<3"), pinned=("torch",)),
}
PLOT = Peer(("matplotlib",))


class RunError(RuntimeError):
    """A command failed; the message is the last thing it said."""


def install(name: str, peer: Peer, python: str) -> None:
    """Makes a peer's virtual environment from `python`, unless one with the same requirements is there.

    Raises:
        RunError: pip's last word where it failed.
    """
    folder = VENVS / name
    stamp, pins = folder / "complete", constraints(peer, (ROOT / "constraints.txt").read_text())
    fingerprint = "\n".join((run([python, "-VV"]), *peer.packages, pins))
    if stamp.exists() and stamp.read_text() == fingerprint:
        return
    say(f"{name}: installing {' '.join(peer.packages)} ...")
    run([python, "-m", "venv", "--clear", str(folder)])
    (folder / "constraints.txt").write_text(pins)
    pip = [python_of(name), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    run([*pip, "-c", str(folder / "constraints.txt"), *peer.packages])
    stamp.write_text(fingerprint)


def constraints(peer: Peer, text: str) -> str:
    """The lines of constraints.txt that hold for a peer."""
    if peer.pinned is None:
        return text
    return "".join(line for line in text.splitlines(True) if line.split("==")[0].lower() in peer.pinned)


def python_of(name: str) -> str:
    """The interpreter of a peer's environment."""
    return str(VENVS / name / "bin" / "python")


def last_json(text: str) -> dict[str, Any]:
    """The object on the last line.

    Raises:
        RunError: it is none.
    """
    last = (text.strip().splitlines() or [""])[-1]
    try:
        result = json.loads(last)
    except json.JSONDecodeError:
        result = None
    if not isinstance(result, dict):
        raise RunError(f"the last line of the output is no JSON object: {last[:200]}")
    return result


def run(command: Sequence[str], environ: Mapping[str, str] | None = None) -> str:
    """Runs a command in a folder of its own to its end, and ends what it left behind; returns its standard output.

    Raises:
        RunError: with the last line that it wrote where it failed, or where it took too long.
    """
    with tempfile.TemporaryDirectory(prefix="ddp-ppo-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with open(folder / "stdout", "wb") as output, open(folder / "stderr", "wb") as errors:
            process = subprocess.Popen(
                command, cwd=folder, env=environ, stdout=output, stderr=errors, start_new_session=True
            )
            try:
                status = process.wait(RUN_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                raise RunError(f"no end within {RUN_TIMEOUT_SECONDS:.0f} s") from None
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        said, complained = ((folder / stream).read_text(errors="replace") for stream in ("stdout", "stderr"))
    if status:
        raise RunError(f"exit {status}: {reason(complained) or reason(said) or 'it said nothing'}")
    return said


def reason(text: str) -> str:
    """The last line, or the last that begins with ERROR, which pip follows with hints."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or [""])[-1][:300]


def say(text: str) -> None:
    """Progress goes to standard error, so that the output is the table and the JSON line."""
    print(text, file=sys.stderr, flush=True)
