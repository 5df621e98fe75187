"""Brings a NaN (or what overflows) into each of nine stages on each of two ranks, and reads what the program says.

Everything comes from outside: a user's environment on one rank, or another process that writes into the memory that a
learner shares with its actors, which any process of the same user can open under /proc.
"""

from __future__ import annotations

import mmap
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from ddp_ppo.config.load import load_config
from ddp_ppo.config.settings import Config
from ddp_ppo.sampling.shared_memory import _places
from ddp_ppo.training.plan import prepare
from tests.long.mujoco_environments import JOINT
from tests.long.report import FAILED, Row, newest_run, start, verdict
from tests.support.process import Program, read_csv
from tests.support.results import is_learner, load, tensors

AT = 38  # step that an environment goes wrong in: the 6th of the second rollout, and no end of an episode
STEP = 5  # of the rollout, that a corrupted value stands in
CONFIG = """
num_actors: 2
num_gpus: 2
device: cpu
envs_per_actor: 2
rollout_length: 32
total_env_steps: 768
minibatch_size: 16
num_epochs: 2
hidden_sizes: [8]
eval_interval: 0
eval_episodes: 1
checkpoint_interval: 1
learner_threads: 1
collective_timeout_seconds: 20
run_name: a
"""
ON_RANK = "tests.long.environments:OnRank-v0"
SLOW = "tests.long.environments:Slow-v0"
PLAIN_VALUES = "normalize_reward: false\ngamma: 0\n"  # one reward reaches one return, and is not clipped


class Stage(NamedTuple):
    """One way in: a configuration, the array that is corrupted if any, and what the message has to name."""

    name: str
    config: str
    array: str | None
    says: str  # the stage, as a pattern
    place: str = r"environment 0\b.*step 6\b"


def _on_rank(how: str) -> str:
    return f"env_id: {ON_RANK}\nenv_kwargs: {{how: {how}, rank: RANK, at: {AT}}}\n"


_corrupted = f"env_id: {SLOW}\nenv_kwargs: {{seconds: 0.01}}\n"
_at_step = rf"environment 0\b.*step {STEP}\b"
STAGES = (
    Stage(
        "simulation state",
        f"env_id: tests.long.mujoco_environments:BrokenState-v0\nenv_kwargs: {{rank: RANK, at: {AT}}}\n",
        None,
        rf"state.*{JOINT}|{JOINT}.*state",
    ),
    Stage("obs", _on_rank("nan_obs"), None, r"\bobs(ervation)?\b"),
    Stage("reward", _on_rank("nan_reward"), None, r"\breward\b"),
    Stage("return", _corrupted, "ret", r"\breturn\b", _at_step),
    Stage("adv", _corrupted, "adv", r"\badv(antage)?\b", _at_step),
    Stage("logp", _corrupted, "logp", r"\blogp\b", _at_step),
    Stage("loss", PLAIN_VALUES + _on_rank("huge_reward"), None, r"\bloss\b"),
    Stage(
        "gradient",
        PLAIN_VALUES + "normalize_obs: false\nactivation: relu\n" + _on_rank("huge_gradient"),
        None,
        r"\bgradient\b",
        r"round 2\b.*environment 0\b.*step 6\b",
    ),
    Stage("parameter", _corrupted, "trained_parameters", r"\bparameter", r"round [123]\b.*actor\.0\.weight\[0, 0\]"),
)


def run(folder: Path, part: str = "") -> Iterator[Row]:
    """One row for each stage and rank."""
    for stage in STAGES:
        for rank in (0, 1):
            if part in stage.name:
                yield check(stage, rank, folder / f"{stage.name}-{rank}".replace(" ", "-"))
    for stage in STAGES:
        if stage.array is not None and part in stage.name:  # one learner saves what it has learnt before it ends
            yield check(stage, 0, folder / f"{stage.name}-alone", num_learners=1)


def check(stage: Stage, rank: int, folder: Path, num_learners: int = 2) -> Row:
    """Runs the learners, brings the value in, and judges the first message and the files."""
    folder.mkdir()
    config = folder / "config.yaml"
    config.write_text(CONFIG + stage.config.replace("RANK", str(rank)))
    case = f"{stage.name} on rank {rank}" if num_learners > 1 else f"{stage.name}, one learner"
    words = () if num_learners > 1 else ("num_gpus=1", "num_actors=1")
    with start(folder / "run", config, *words, nproc=num_learners if num_learners > 1 else None) as program:
        if stage.array is not None:
            program.wait_until(lambda: num_rows(folder / "run") >= 1, "first round")
            with corrupted(program, load_config(config, words), rank, stage.array):
                ended = program.end(60)
        else:
            ended = program.end(60)
    said = [line for line in (ended.err + ended.out).splitlines() if re.match(r"ddp-ppo: |note: ", line)]
    lines = [line for line in said if not re.search("failed .collective_timeout_seconds", line)]  # of the others
    message = lines[0] if lines else "nothing"
    run_folder = newest_run(folder / "run")
    events = (run_folder / "events.jsonl").read_text() if run_folder else ""
    problems = []
    if ended.code == 0 or ended.left:
        problems.append(f"exit code {ended.code}, {len(ended.left)} processes left")
    if not re.search(stage.says, message):
        problems.append("the stage is not named")
    if not re.search(rf"\brank {rank}\b", message):
        problems.append("the rank is not named")
    if not re.search(stage.place, message):
        problems.append("the place is not named")
    problems += [f"not finite: {path.name}" for path in not_finite(folder / "run")]
    if message[9:60] not in events:
        problems.append("not in events.jsonl")
    evidence = bool(run_folder and list(run_folder.glob(f"evidence_*_rank_{rank}.pt")))
    if evidence != ("environment" in message and stage.name != "gradient"):
        problems.append("no evidence" if not evidence else "evidence of nothing")
    figures = f"{ended.seconds:.0f} s, evidence: {'yes' if evidence else 'no'}, said: {message[:200]}"
    return Row(verdict(not problems) if lines else FAILED, case, "; ".join([*problems, figures]))


def num_rows(folder: Path) -> int:
    """Rounds that have ended."""
    run_folder = newest_run(folder)
    path = run_folder / "metrics.csv" if run_folder else folder
    return len(read_csv(path)) if path.is_file() else 0


def not_finite(folder: Path) -> list[Path]:
    """Model files and checkpoints that hold a value which is not finite."""
    paths = [path for path in folder.rglob("*.pt") if not path.name.startswith("evidence")]
    return [path for path in paths if not all(torch.isfinite(tensor).all() for tensor in tensors(load(path)))]


@contextmanager
def corrupted(program: Program, config: Config, rank: int, name: str) -> Iterator[None]:
    """Writes NaN to one place of a learner's shared memory, again and again, until the context is left."""
    count = str(config.num_gpus)
    environ = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
    shapes = prepare(config, environ={**environ, "GROUP_RANK": "0"} if config.num_gpus > 1 else {}).block_shapes
    is_alone = config.num_gpus == 1
    learner = program.process.pid if is_alone else next(pid for pid in program.alive() if is_learner(pid, rank))
    paths = [path for path in Path(f"/proc/{learner}/fd").iterdir() if os.readlink(path).startswith("/memfd:ddp_ppo")]
    first, dtype, shape = _places(shapes)[name]
    with paths[0].open("r+b") as file:
        memory = mmap.mmap(file.fileno(), 0)
    array = np.frombuffer(memory, dtype, int(np.prod(shape)), first).reshape(shape)
    place = (STEP - 1, 0) if len(shape) > 1 else (0,)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            for _ in range(1000):
                array[place] = np.nan
            time.sleep(0)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join()
