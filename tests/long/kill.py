"""Kills each process with each signal in each phase: who is left, what is left, how long it takes, and the resume.

A run shows its phase from outside: its environments add a letter for each step to a file, a row in the CSV is a round
that ended, a temporary file is a checkpoint that is being written. A slow environment, a long update or a large network
makes one phase long enough to hit.
"""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.long.report import SKIPPED, Row, fingerprint, newest_run, start, verdict
from tests.support.process import Program, files_in, read_csv
from tests.support.results import is_learner

LENGTH = 16  # steps of each environment in a round
ROUNDS = 4
LIMIT_SECONDS = 10.0
COLLECTIVE_SECONDS = 5.0
ACTOR_SECONDS = 4.0

CONFIG = f"""
env_id: tests.long.environments:Slow-v0
num_actors: 2
envs_per_actor: 1
rollout_length: {LENGTH}
minibatch_size: 16
num_epochs: 1
hidden_sizes: [8]
eval_interval: 0
eval_episodes: 1
checkpoint_interval: 1
learner_threads: 2
actor_timeout_seconds: {ACTOR_SECONDS}
collective_timeout_seconds: {COLLECTIVE_SECONDS}
run_name: a
"""
# What makes a phase long: (environment's arguments, settings of the whole run, which the resumed one needs too).
SLOW = {
    "launch": ("{{folder: {folder}}}", ()),
    "start": ("{{seconds: 1.5, folder: {folder}}}", ()),
    "sample": ("{{seconds: 0.08, folder: {folder}}}", ()),
    "train": ("{{folder: {folder}}}", ("hidden_sizes=[256,256]", "num_epochs=300")),
    "sync": ("{{seconds: 0.02, slow_rank: 0, factor: 10, folder: {folder}}}", ()),
    "save": ("{{folder: {folder}}}", ("hidden_sizes=[1024,1024]",)),
    # A second round that would take half a minute, of a run that has not saved the first one yet.
    "long sample": (f"{{{{seconds: 2, slow_from: {LENGTH}, folder: {{folder}}}}}}", ("checkpoint_interval=1000",)),
}
PHASES = tuple(phase for phase in SLOW if phase != "long sample")
SIGNALS = {"TERM": signal.SIGTERM, "KILL": signal.SIGKILL, "STOP": signal.SIGSTOP}


class Case(NamedTuple):
    """One cell of the matrix; `nproc` is None for plain Python."""

    target: str
    nproc: int | None
    signal: str
    phase: str

    @property
    def name(self) -> str:
        """As the table shows it."""
        return f"{self.target}{'' if self.nproc is None else f'/{self.nproc}'} {self.signal} {self.phase}"


def cases() -> Iterator[Case]:
    """The whole matrix. A stopped launcher or agent cannot be told from a slow one, so STOP does not apply to it."""
    for name, phase in itertools.product(("TERM", "KILL", "STOP"), ("start", "sample", "train", "save")):
        yield Case("actor", None, name, phase)
    for name in ("TERM", "KILL", "STOP"):
        yield Case("actor", 2, name, "sync")
    for name, phase in itertools.product(("TERM", "KILL"), ("launch", "start", "sample", "train", "save")):
        yield Case("launcher", None, name, phase)
    for name, phase in itertools.product(("TERM", "KILL", "STOP"), PHASES):
        yield Case("learner", 2, name, phase)
    for name, phase in itertools.product(("TERM", "KILL"), PHASES):
        yield Case("agent", 2, name, phase)
    yield Case("launcher", None, "TERM", "long sample")
    yield Case("agent", 2, "TERM", "long sample")
    yield Case("learner", 2, "TERM", "long sample")
    yield Case("agent", 1, "KILL", "launch")
    yield Case("agent", 1, "KILL", "sample")


@dataclass
class Watched:
    """A run of one case and what it shows."""

    case: Case
    program: Program
    folder: Path
    calls: Path

    @property
    def home(self) -> Path:
        """Its run folder."""
        return self.folder / "output" / "config-a"

    def rows(self) -> int:
        """Rounds that have ended."""
        with suppress(OSError):
            return len(read_csv(self.home / "metrics.csv"))
        return 0

    def steps(self, rank: int | None = None) -> list[int]:
        """Steps of each training environment."""
        files = [path for path in self.calls.iterdir() if path.name.endswith("-0")]
        return [path.stat().st_size for path in files if rank is None or path.name.startswith(f"{rank}-")]

    def actors(self, rank: int) -> list[int]:
        """Actors of a learner that have built, or are building, their environments."""
        return sorted({int(path.name.split("-")[1]) for path in self.calls.glob(f"{rank}-*")})

    def victim(self) -> int:
        """The process to hit: of several learners the one of rank 1, of its actors the first."""
        rank = 1 if self.case.nproc == 2 else 0
        if self.case.target == "actor":
            return self.actors(rank)[0]
        if self.case.target == "learner":
            return next(pid for pid in self.program.alive() if is_learner(pid, rank))
        return self.program.process.pid

    def is_in_phase(self) -> bool:
        """Whether the phase is there, as far as it can be seen at one moment."""
        # An actor helps to train in the first round; the others have a checkpoint to go on from.
        number = 1 if self.case.target == "actor" and self.case.phase == "train" else 2
        actors = 2  # in all: two of one learner, or one of each of two
        steps = self.steps()
        if self.case.phase == "launch":
            learners = 1 if self.case.nproc is None else self.case.nproc
            return sum(is_training(pid) for pid in self.program.alive()) == learners
        if self.case.phase == "start":
            return len([*self.calls.glob("*-start")]) == actors
        if self.case.phase == "save":
            return any((self.home / "checkpoints").glob(f".checkpoint_{number:07d}.pt.*.tmp"))
        if len(steps) != actors or self.rows() != number - 1:
            return False
        done = [count - (number - 1) * LENGTH for count in steps]
        if self.case.phase == "long sample":
            return min(done) >= 0
        if self.case.phase == "sample":
            return all(3 <= count < LENGTH - 3 for count in done)
        if self.case.phase == "train":
            return min(done) == LENGTH
        return self.steps(1) == [number * LENGTH] and self.steps(0)[0] < number * LENGTH - 3


def is_training(pid: int) -> bool:
    """Whether a process runs train.py itself, not one of its actors or its launcher."""
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return words[1:2] != [b"-m"] and any(word.endswith(b"train.py") for word in words[:3])
    return False


def wait_for(condition: Callable[[], bool], program: Program, seconds: float, held_seconds: float = 0.0) -> bool:
    """Waits until a condition has held for some time; False where the program ended or the time is over."""
    deadline, since = time.monotonic() + seconds, None
    while time.monotonic() < deadline and program.process.poll() is None:
        since = (since or time.monotonic()) if condition() else None
        if since is not None and time.monotonic() >= since + held_seconds:
            return True
        time.sleep(0.001)
    return False


def run(folder: Path, part: str = "") -> Iterator[Row]:
    """Runs the matrix, and compares every resumed run with an unbroken one."""
    bystander = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    config = folder / "config.yaml"
    config.write_text(CONFIG)
    unbroken: dict[tuple[object, ...], tuple[int, str, str]] = {}
    try:
        for number, case in enumerate(cases()):
            if part in case.name:
                yield check(case, config, folder / str(number), unbroken)
        yield Row(verdict(bystander.poll() is None), "bystander", "a process of someone else lives on")
    finally:
        bystander.kill()
        bystander.communicate()


def words_of(case: Case, env_kwargs: str = "") -> list[str]:
    """The settings of a case."""
    words = [f"total_env_steps={2 * LENGTH * ROUNDS}", *SLOW[case.phase][1]]
    if case.phase == "start":
        words.append("env_id=tests.long.environments:Late-v0")
    if case.nproc == 2:
        words += ["device=cpu", "num_gpus=2"]
    return [*words, f"env_kwargs={env_kwargs}"] if env_kwargs else words


def check(case: Case, config: Path, folder: Path, unbroken: dict[tuple[object, ...], tuple[int, str, str]]) -> Row:
    """One cell: hits, waits, counts what is left, resumes."""
    key = (case.nproc, SLOW[case.phase][1])
    if key not in unbroken:
        with start(folder.parent / f"whole-{len(unbroken)}", config, *words_of(case), nproc=case.nproc) as program:
            program.end(120)
        unbroken[key] = fingerprint(newest_run(folder.parent / f"whole-{len(unbroken)}"))
    calls = folder / "calls"
    calls.mkdir(parents=True)
    memory = set(os.listdir("/dev/shm"))
    words = words_of(case, SLOW[case.phase][0].format(folder=calls))
    with start(folder / "run", config, *words, nproc=case.nproc) as program:
        watched = Watched(case, program, folder / "run", calls)
        held = {"launch": 0.3, "train": 0.1, "sync": 0.2}.get(case.phase, 0.0)
        if not wait_for(watched.is_in_phase, program, 60.0, held):
            return Row(SKIPPED, case.name, f"the phase was not met: {watched.rows()} rows, steps {watched.steps()}")
        os.kill(watched.victim(), SIGNALS[case.signal])
        figures = observe(case, program)
        out, err = program.out, program.err
    left_memory = set(os.listdir("/dev/shm")) - memory
    temporary = [path.name for path in (folder / "run.tmp").iterdir()]
    own = [name for name in temporary if not name.startswith("torchelastic_")]
    partial = len([name for name in files_in(folder / "run") if name.endswith(".tmp")])
    figures.problems += [f"in /dev/shm: {sorted(left_memory)}"] if left_memory else []
    figures.problems += [f"in the temporary folder: {own}"] if own else []
    resumed = resume(case, config, folder / "run", unbroken[key], figures, is_complete=figures.code == 0)
    if re.search(r"^Traceback", err, re.MULTILINE) and case.nproc is None:
        figures.problems.append("a traceback: " + err.strip().splitlines()[-1])
    text = f"{figures}, shm {len(left_memory)}, temp {len(own)}, half files {partial}, {resumed}"
    said = " | ".join(line for line in (out + err).splitlines() if re.search("^ddp-ppo:|^note: actor", line))
    problems = "" if not figures.problems else f"; PROBLEM: {'; '.join(figures.problems)}"
    return Row(verdict(not figures.problems), case.name, f"{text}{problems}{f'; said: {said[:160]}' if said else ''}")


@dataclass
class Figures:
    """How a run ended after it was hit."""

    code: int | None
    seconds: float
    left: int
    problems: list[str]

    def __str__(self) -> str:
        """As the table shows it."""
        return f"exit {self.code}, gone after {self.seconds:.1f} s, left {self.left}"


def observe(case: Case, program: Program) -> Figures:
    """Waits for the end of all processes, and says what was not as it should be."""
    goes_on = case.target == "actor" and (case.signal == "TERM" or case.phase != "start")
    limit = 60.0 if goes_on else LIMIT_SECONDS
    limit += {"learner": COLLECTIVE_SECONDS, "actor": ACTOR_SECONDS}.get(case.target, 0) if case.signal == "STOP" else 0
    hit = time.monotonic()
    while program.alive() and time.monotonic() < hit + limit + 45:
        program.process.poll()
        time.sleep(0.01)
    seconds, left = time.monotonic() - hit, len(program.alive())
    with suppress(subprocess.TimeoutExpired):
        program.process.wait(5)
    code = program.process.poll()
    problems = [f"{left} processes left"] if left else []
    if seconds > limit:
        problems.append(f"took {seconds:.1f} s, allowed are {limit:g}")
    allowed = {
        ("launcher", "TERM"): (143, -signal.SIGTERM) if case.phase == "launch" else (143,),
        ("launcher", "KILL"): (-signal.SIGKILL,),
        ("agent", "KILL"): (-signal.SIGKILL,),
    }.get((case.target, case.signal), (0,) if goes_on else (1,))
    if code not in allowed:
        problems.append(f"exit code {code}, expected {' or '.join(map(str, allowed))}")
    return Figures(code, seconds, left, problems)


def resume(
    case: Case, config: Path, folder: Path, whole: tuple[int, str, str], figures: Figures, *, is_complete: bool
) -> str:
    """Goes on to the end, unless the run has got there, and compares with the unbroken one."""
    before = fingerprint(newest_run(folder))[0]
    if before and case.signal == "KILL" and case.phase == "launch":
        figures.problems.append(f"what was left went on by itself to round {before}")
    if not is_complete:
        with start(folder, config, *words_of(case), "resume=auto", nproc=case.nproc) as program:
            ended = program.end(120)
        if ended.code or ended.left:
            figures.problems.append(f"resume: exit {ended.code}, left {len(ended.left)}: {ended.err.strip()[-200:]}")
            return f"not resumed from round {before}"
    found = fingerprint(newest_run(folder))
    half = [name for name in files_in(newest_run(folder) or folder) if name.endswith(".tmp")]
    if found != whole:
        what = [name for name, a, b in zip(("round", "state", "csv"), found, whole, strict=True) if a != b]
        figures.problems.append(f"differs from the unbroken run in {', '.join(what)}")
    if half:
        figures.problems.append(f"half files remain: {half}")
    ending = "went on to" if is_complete else f"resumed from round {before} to"
    return f"{ending} {found[0]}, equal {'yes' if found == whole else 'NO'}"
