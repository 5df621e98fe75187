"""Runs the program as its users do: in a process of its own, in a temporary folder, with a limit on every wait.

All processes of a program carry a mark in their environment, whoever their parent is by then; ending it ends them all.
"""

from __future__ import annotations

import csv
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ddp_ppo.config.settings import Config
from ddp_ppo.runs.metric_table import MEASURED
from ddp_ppo.sampling.actor import ActorJob
from ddp_ppo.sampling.shared_memory import SharedBlock
from ddp_ppo.training import sampler
from ddp_ppo.training.plan import prepare

ROOT = Path(__file__).resolve().parents[2]
SMOKE = ROOT / "configs" / "smoke.yaml"
PROGRAMS = ROOT / "tests" / "support" / "programs"
LIMIT_SECONDS = 120.0
POLL_SECONDS = 0.01
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # under nohup: programs would inherit that, but not a handler
    signal.signal(signal.SIGHUP, lambda number, frame: None)
TORCHRUN_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "OMP_NUM_THREADS")

# 2 actors x 2 environments x 16 steps = 64 samples a round; CartPole's state can be saved.
TINY = """
env_id: CartPole-v1
num_actors: 2
envs_per_actor: 2
rollout_length: 16
total_env_steps: 640
minibatch_size: 32
num_epochs: 2
hidden_sizes: [8]
eval_interval: 5
eval_episodes: 2
checkpoint_interval: 5
"""
# The same sizes, for the environments of tests/support/fixtures.py.
FIXTURE = TINY.replace("CartPole-v1", "tests.support.fixtures:Count-v0")


class Ended(NamedTuple):
    """How a program ended; `left` are its processes that still lived when it had ended, and live no more."""

    code: int
    out: str
    err: str
    seconds: float
    left: list[int]


class Program:
    """One running program with all its processes; leaving it as a context ends them."""

    def __init__(self, *words: object, folder: Path, environ: dict[str, str] | None = None) -> None:
        self.mark = f"DDP_PPO_TEST={uuid.uuid4().hex}"
        name, _, value = self.mark.partition("=")
        inherited = {key: text for key, text in os.environ.items() if key not in TORCHRUN_VARIABLES}
        self._files = [tempfile.TemporaryFile(dir=folder.parent) for _ in range(2)]  # noqa: SIM115 - lives as long
        self.start = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, *map(str, words)],
            cwd=folder,
            env={**inherited, "PYTHONPATH": str(ROOT), **(environ or {}), name: value},
            stdin=subprocess.DEVNULL,
            stdout=self._files[0],
            stderr=self._files[1],
            start_new_session=True,
        )

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()
        for file in self._files:
            file.close()

    @property
    def out(self) -> str:
        """What it has printed so far."""
        return self._text(0)

    @property
    def err(self) -> str:
        """What it has said on stderr so far."""
        return self._text(1)

    def _text(self, index: int) -> str:
        descriptor = self._files[index].fileno()
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")

    def wait_until(self, condition: Callable[[], object], what: str, seconds: float = LIMIT_SECONDS) -> None:
        """Waits for a condition while the program runs; fails the test where it ends or takes too long first."""
        deadline = time.monotonic() + seconds
        while not condition():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"no {what}; exit code {self.process.poll()}\n{self.out}\n{self.err}")
            time.sleep(POLL_SECONDS)

    def signal_group(self, number: int) -> None:
        """Ctrl-C and the like: a signal to every process of its group."""
        os.killpg(self.process.pid, number)

    def alive(self) -> list[int]:
        """Its processes that are alive, zombies left out."""
        return marked(self.mark)

    def end(self, seconds: float = LIMIT_SECONDS, grace_seconds: float = 3.0) -> Ended:
        """Waits for its end and says how it went; its children may live `grace_seconds` longer.

        multiprocessing's resource tracker ends by itself when it finds that nobody holds its pipe any more.
        """
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"hung for {seconds:g} s\n{self.out}\n{self.err}") from None
        took = time.monotonic() - self.start
        deadline = time.monotonic() + grace_seconds
        while (left := self.alive()) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        self.kill()
        return Ended(code, self.out, self.err, took, left)

    def kill(self) -> None:
        """Ends all its processes."""
        while pids := self.alive():
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.process.wait()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def marked(mark: str) -> list[int]:
    """Processes with `NAME=value` in their environment (a zombie has none)."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def train_words(*words: object, nproc: int | None = None) -> list[object]:
    """The command line of a training, by plain python or by torchrun."""
    launcher = [] if nproc is None else ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={nproc}"]
    return [*launcher, ROOT / "train.py", *words]


def read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file as text."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def without_times(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """The same rows without the columns that a clock or the kernel filled."""
    return [{name: cell for name, cell in row.items() if not name.startswith(MEASURED)} for row in rows]


def files_in(folder: Path) -> set[str]:
    """All files below a folder, relative to it."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


class FolderTestCase(unittest.TestCase):
    """A test case with a temporary folder per class, `work` in it as current folder of every program."""

    folder: Path
    work: Path

    @classmethod
    def setUpClass(cls) -> None:
        temporary = tempfile.TemporaryDirectory(prefix="ddp_ppo_test_")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = Path(temporary.name).resolve()
        cls.work = cls.folder / "work"
        cls.work.mkdir()

    @classmethod
    def config(cls, name: str, text: str) -> Path:
        """Writes a configuration."""
        path = cls.folder / f"{name}.yaml"
        path.write_text(text)
        return path

    @classmethod
    def start(cls, *words: object, nproc: int | None = None, environ: dict[str, str] | None = None) -> Program:
        """Starts a training; ended with the class at the latest."""
        program = Program(*train_words(*words, nproc=nproc), folder=cls.work, environ=environ)
        cls.addClassCleanup(program.__exit__)
        return program

    @classmethod
    def train(cls, *words: object, nproc: int | None = None) -> Ended:
        """Runs a training to its end, which must be a success that leaves no process behind."""
        return succeeded(cls.start(*words, nproc=nproc))

    @classmethod
    def run_all(cls, *commands: list[object]) -> Ended:
        """Runs commands of ddp-ppo in one process, one after the other: torch is imported once."""
        program = Program(PROGRAMS / "run_commands.py", json.dumps(commands, default=str), folder=cls.work)
        cls.addClassCleanup(program.__exit__)
        return succeeded(program)

    @classmethod
    def command_line(cls, *words: object, environ: dict[str, str] | None = None) -> tuple[int, str, str]:
        """Exit code, output and errors of one call of ddp-ppo, which must leave no process behind."""
        with Program("-m", "ddp_ppo", *words, folder=cls.work, environ=environ) as program:
            ended = program.end()
        if ended.left:
            raise AssertionError(f"left processes {ended.left}")
        return ended.code, ended.out, ended.err

    def run_folder(self, output: str = "output", pattern: str = "*-*") -> Path:
        """The only run folder in an output folder of `work`."""
        (found,) = (path for path in (self.work / output).glob(pattern) if path.is_dir())
        return found


def succeeded(program: Program) -> Ended:
    """The end of a program, which must be a success that leaves no process behind."""
    ended = program.end()
    if ended.code or ended.left:
        raise AssertionError(f"exit code {ended.code}, left processes {ended.left}\n{ended.out}\n{ended.err}")
    return ended


def actor_jobs(config: Config) -> tuple[SharedBlock, list[ActorJob]]:
    """The shared block of one learner and the jobs of its actors, as a training would give them out.

    Parameters are 0, there are no statistics yet and rewards are not scaled; the caller closes the block.
    """
    plan = prepare(config, environ={})
    block = SharedBlock(plan.block_shapes)
    block.arrays["obs_var"][:] = 1.0
    block.arrays["reward_scale"][:] = 1.0
    return block, sampler.actor_jobs(plan, block)
