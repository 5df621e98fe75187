"""`ddp-ppo bench config.yaml`: which actors x environments are fastest on this machine, by trying them for a minute.

Every candidate keeps the samples of a round and the mini-batches as they are, so that learning stays the same up to
the length of the rollouts. Each is a real training of a few rounds in a temporary folder.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ddp_ppo.config.settings import Config
from ddp_ppo.distributed.topology import shares
from ddp_ppo.machine import this_machine
from ddp_ppo.runs.console import Console
from ddp_ppo.runs.metric_table import STEPS_PER_SECOND, seconds_of
from ddp_ppo.text import entry
from ddp_ppo.training.trainer import train

NUM_ROUNDS = 8
_WARM_UP_ROUNDS = 3
_MIN_ROLLOUT_LENGTH = 16


@dataclass(frozen=True)
class Candidate:
    """One setting and what it reached."""

    num_actors: int
    num_envs: int
    rollout_length: int
    steps_per_second: float = 0.0
    sample_seconds: float = 0.0
    train_seconds: float = 0.0

    @property
    def words(self) -> str:
        """Its settings, as the command line takes them."""
        names = ("num_actors", "num_envs", "rollout_length")
        return " ".join(f"{name}={getattr(self, name)}" for name in names)


def one_learner(config: Config) -> Config:
    """The configuration of one of the learners."""
    actors: Any = config.actors_per_learner or "auto"
    num_envs = config.envs_per_learner
    return replace(config, num_gpus=1, actors_per_gpu=None, num_actors=actors, num_envs=num_envs, envs_per_actor=None)


def own_candidate(config: Config, num_cores: int) -> Candidate:
    """A configuration's own setting on so many cores."""
    return Candidate(len(shares(config, num_cores)), config.envs_per_learner, config.rollout_length)


def candidates(config: Config, num_cores: int) -> Iterator[Candidate]:
    """The configuration's own setting first, then others with as many samples a round, the likeliest first."""
    own = own_candidate(config, num_cores)
    yield own
    for envs_per_actor in (8, 16, 4, 32, 2, 1):
        for num_actors in dict.fromkeys((num_cores, max(1, num_cores // 2), 2 * num_cores)):
            num_envs = num_actors * envs_per_actor
            length = config.samples_per_round // num_envs
            candidate = Candidate(num_actors, num_envs, length)
            is_same_size = length * num_envs == config.samples_per_round
            if candidate != own and is_same_size and length >= _MIN_ROLLOUT_LENGTH:
                yield candidate


def measure(config: Config, candidate: Candidate, environ: Mapping[str, str], folder: str) -> Candidate:
    """Trains a few rounds with one setting; medians over the rounds after the first few."""
    samples = candidate.num_envs * candidate.rollout_length
    trial = replace(
        config,
        num_actors=candidate.num_actors,
        num_envs=candidate.num_envs,
        envs_per_actor=None,
        rollout_length=candidate.rollout_length,
        total_env_steps=NUM_ROUNDS * samples,
        eval_interval=0,
        eval_episodes=1,
        output_dir=folder,
        metrics_path=None,
        resume=None,
        run_name=f"{candidate.num_actors}x{candidate.num_envs}",
    )
    metrics = train(trial, environ=environ, console=Console.silent()).metrics
    medians = [
        statistics.median(metrics[name].tolist()[_WARM_UP_ROUNDS:-1])
        for name in (STEPS_PER_SECOND, seconds_of("sample"), seconds_of("train"))
    ]
    return replace(candidate, steps_per_second=medians[0], sample_seconds=medians[1], train_seconds=medians[2])


def run(config: Config, *, environ: Mapping[str, str], seconds: float, console: Console) -> list[Candidate]:
    """Tries candidates until the time is up and prints each; the fastest comes first in the result."""
    config = one_learner(config)
    deadline = time.monotonic() + seconds
    done: list[Candidate] = []
    console.say(f"{'actors':>7} {'envs':>6} {'steps':>6} {'steps/s':>9} {'sample ms':>10} {'train ms':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for candidate in candidates(config, this_machine().num_cores):
            if done and time.monotonic() > deadline:
                break
            one = measure(config, candidate, environ, folder)
            done.append(one)
            console.say(
                f"{one.num_actors:7} {one.num_envs:6} {one.rollout_length:6} {one.steps_per_second:9,.0f} "
                f"{1000 * one.sample_seconds:10.1f} {1000 * one.train_seconds:9.1f}"
            )
    own, best = done[0], max(done, key=lambda one: one.steps_per_second)
    times = f"{best.steps_per_second / own.steps_per_second:.2f} times the configuration's own speed"
    console.say(entry("fastest", f"{best.words}: {times}"))
    console.say(entry("note", "train both and compare their returns: the length of rollouts matters for learning"))
    return sorted(done, key=lambda one: -one.steps_per_second)
