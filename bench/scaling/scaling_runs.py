"""The runs of `bench/scaling.py`: which setups are trained, how, and what their metrics say of a round.

A run is `train.py` as a user starts it, alone or under torchrun, on HalfCheetah and without a GPU.
"""

from __future__ import annotations

import csv
import os
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from environments import ROOT, run
from peers import THREAD_VARIABLES
from scaling_report import MEASURED_STAGES

Key = tuple[int, int, int, int, int]  # learners, actors of each, environments of each, rollout_length, minibatch_size
Seconds = dict[str, float]

CONFIG = ROOT / "configs" / "half_cheetah.yaml"
FITTED: tuple[Key, ...] = (
    (1, 1, 16, 128, 64),
    (1, 2, 8, 128, 64),
    (1, 4, 4, 128, 64),
    (1, 1, 8, 128, 64),
    (1, 4, 8, 128, 64),
    (2, 1, 8, 128, 64),
    (2, 2, 4, 128, 64),
    (2, 2, 8, 128, 64),
    (1, 2, 8, 128, 256),
    (2, 1, 8, 128, 256),
)
CHECKS: tuple[Key, ...] = ((1, 2, 16, 64, 128), (2, 1, 16, 128, 128))  # predicted without being fitted
SERIES = (  # name, setups, how many times the processes of the first one
    ("actors, 16 environments in total", FITTED[:3], (1, 2, 4)),
    ("actors, 8 environments each", (FITTED[3], FITTED[1], FITTED[4]), (1, 2, 4)),
    ("learners, 16 environments and 2 actors in total", (FITTED[1], FITTED[5]), (1, 2)),
    ("learners, 16 environments and 4 actors in total", (FITTED[2], FITTED[6]), (1, 2)),
    ("learners, 1 actor with 8 environments each", (FITTED[3], FITTED[5]), (1, 2)),
    ("learners, 2 actors with 8 environments each", (FITTED[1], FITTED[7]), (1, 2)),
)
WARM_UP_ROUNDS = 5


def environ() -> dict[str, str]:
    """The environment of a run: the program chooses its threads itself, and no GPU is there."""
    return {k: v for k, v in os.environ.items() if k not in THREAD_VARIABLES} | {"CUDA_VISIBLE_DEVICES": ""}


def torchrun(num_processes: int) -> list[str]:
    """The command before a script's name."""
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={num_processes}"]


def train(key: Key, num_rounds: int) -> list[dict[str, str]]:
    """One run; the rows of its metrics.

    Raises:
        RunError: it failed.
    """
    num_learners, num_actors, envs_per_actor, rollout_length, minibatch_size = key
    with tempfile.TemporaryDirectory(prefix="ddp-ppo-bench-") as folder:
        settings = {
            "device": "cpu",
            "num_gpus": num_learners,
            "num_actors": num_learners * num_actors,
            "envs_per_actor": envs_per_actor,
            "rollout_length": rollout_length,
            "minibatch_size": minibatch_size,
            "total_env_steps": num_rounds * steps_of(key),
            "eval_interval": 0,
            "eval_episodes": 1,
            "checkpoint_interval": num_rounds,
            "output_dir": folder,
            "metrics_path": f"{folder}/metrics.csv",
        }
        start = torchrun(num_learners) if num_learners > 1 else [sys.executable]
        run([*start, str(ROOT / "train.py"), str(CONFIG), *(f"{k}={v}" for k, v in settings.items())], environ())
        with open(Path(folder) / "metrics.csv", newline="") as file:
            return list(csv.DictReader(file))


def rounds_of(rows: Sequence[Mapping[str, str]]) -> list[Seconds]:
    """Seconds of each stage of each round, and of the "round"; without the first ones and the last, which evaluates.

    "write" is what remains between two rounds, in which the row of metrics is written, and "record".
    """
    found = []
    for before, row in zip(rows[WARM_UP_ROUNDS - 1 : -2], rows[WARM_UP_ROUNDS:-1], strict=True):
        stages = {name: float(row[f"time/{name}_seconds"]) for name in (*MEASURED_STAGES, "idle") if name != "write"}
        whole = float(row["time/elapsed_seconds"]) - float(before["time/elapsed_seconds"])
        between = whole - float(row["time/round_seconds"])
        found.append({**stages, "write": between + float(row["time/record_seconds"]), "round": whole})
    return found


def summary(key: Key, repeats: Sequence[Sequence[Seconds]]) -> dict[str, Any]:
    """What a setup measured, its runs taken together."""
    together = [one for rounds in repeats for one in rounds]
    return {
        "key": key,
        "stages": medians(together),
        "steps_per_second": speed(key, together),
        "repeats": [speed(key, rounds) for rounds in repeats],
    }


def medians(rounds: Sequence[Seconds]) -> Seconds:
    """Of each stage: a round that something else disturbed does not count."""
    return {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}


def speed(key: Key, rounds: Sequence[Seconds]) -> float:
    """Environment steps per second of all learners in the median round."""
    return steps_of(key) / medians(rounds)["round"]


def steps_of(key: Key) -> int:
    """Environment steps of a round, all learners together."""
    return key[0] * key[1] * key[2] * key[3]
