"""How several learners are started on one machine: the command of `train --nproc` and run.sh, and the line to paste."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_SCRIPT = Path(__file__).resolve().parents[2] / "train.py"
# Learners meet on this machine alone, whatever its name stands for: torchrun waits 10 minutes for a name that does not
# resolve.
_ON_THIS_MACHINE = ("--standalone", "--local-addr=127.0.0.1")


def launch_command(num_learners: int, words: Sequence[str]) -> list[str]:
    """The command that replaces this process by torchrun with so many learners; words are those behind `train`."""
    agent = [sys.executable, "-m", "torch.distributed.run", *_ON_THIS_MACHINE, f"--nproc_per_node={num_learners}"]
    return [*agent, *_target(), *words]


def launch_line(num_learners: int, words: Sequence[str]) -> str:
    """The line that starts so many learners from a shell.

    Args:
        words: a configuration and `key=value` words; empty if a program has made the configuration.
    """
    target = [*_target(), *words] if words else ["YOUR_PROGRAM.py"]
    return shlex.join([_torchrun(), "--standalone", f"--nproc_per_node={num_learners}", *target])


def launched_environ(environ: Mapping[str, str], num_learners: int) -> dict[str, str]:
    """What the first of so many learners would find in its environment variables; unchanged under torchrun."""
    if num_learners < 2 or "RANK" in environ:
        return dict(environ)
    own = {"RANK": "0", "LOCAL_RANK": "0", "GROUP_RANK": "0"}
    return {**environ, **own, **dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(num_learners))}


def _target() -> list[str]:
    return [str(_SCRIPT)] if _SCRIPT.exists() else ["-m", "ddp_ppo", "train"]


def _torchrun() -> str:
    """The torchrun of this Python, by its path unless the shell finds the same one."""
    own, found = Path(sys.executable).with_name("torchrun"), shutil.which("torchrun")
    is_same = found is not None and own.exists() and os.path.samefile(found, own)
    return "torchrun" if is_same or not own.exists() else str(own)
