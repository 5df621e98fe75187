"""What every peer of `bench/peers.py` has to do, and how it is measured; needs nothing but the standard library.

A peer script trains PPO with `Work`, calls `Stopwatch.round_ended` after each update and ends with
`Stopwatch.report`, one JSON line. Steps/s is sampling plus learning without start-up and the first `WARMUP_ROUNDS`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

WARMUP_ROUNDS = 2
NUM_EPISODES = 10  # first and last episodes whose mean raw returns tell whether a run learned


@dataclass(frozen=True)
class Shape:
    """One kind of work.

    Attributes:
        own: actors, environments of each, steps of each environment in a round.
        num_envs: of every peer; None lets each take one or two, as its design wants.
        samples: transitions of a round, the same for all.
        minibatch_size, hidden_sizes: of every gradient step and network.
        steps: environment steps of one run unless told otherwise.
        env_id: the task.
    """

    own: tuple[int, int, int]
    num_envs: int | None
    samples: int
    minibatch_size: int
    hidden_sizes: tuple[int, ...]
    steps: int
    env_id: str = "HalfCheetah-v5"


SHAPES = {
    "small": Shape((2, 8, 128), None, 2048, 64, (64, 64), 102_400),
    "small16": Shape((2, 8, 128), 16, 2048, 64, (64, 64), 102_400),
    "large": Shape((2, 4, 1024), 8, 8192, 1024, (64, 64), 327_680),
    "wide": Shape((2, 8, 128), None, 2048, 64, (256, 256), 61_440),
    "ant": Shape((2, 4, 1024), 8, 8192, 1024, (64, 64), 81_920, "Ant-v5"),
    "humanoid": Shape((2, 4, 1024), 8, 8192, 1024, (64, 64), 81_920, "Humanoid-v5"),
}


@dataclass(frozen=True)
class Work:
    """The task of one peer run; what all have in common are constants below."""

    env_id: str
    num_envs: int
    rollout_length: int
    minibatch_size: int
    hidden_sizes: tuple[int, ...]
    num_rounds: int
    seed: int
    threads: int

    num_epochs = 10
    learning_rate = 3e-4
    adam_eps = 1e-5
    gamma = 0.99
    gae_lambda = 0.95
    clip_range = 0.2
    value_coef = 0.5
    max_grad_norm = 0.5
    clip = 10.0  # of normalised observations and rewards

    @property
    def samples(self) -> int:
        """Transitions of a round."""
        return self.num_envs * self.rollout_length

    @property
    def num_minibatches(self) -> int:
        """Gradient steps of an epoch."""
        return self.samples // self.minibatch_size

    @property
    def steps(self) -> int:
        """Environment steps of the run."""
        return self.num_rounds * self.samples


def num_rounds(shape: Shape, steps: int | None) -> int:
    """Whole rounds of a run, enough that some remain behind the warm-up and before the last."""
    return max(WARMUP_ROUNDS + 2, -(-(steps or shape.steps) // shape.samples))


def parse(num_envs: int, arguments: Sequence[str] | None = None) -> Work:
    """Reads a peer script's command line; `num_envs` is what the peer takes where the shape leaves it free."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--steps", type=int, help="environment steps; default: the shape's")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    options = parser.parse_args(arguments)
    shape = SHAPES[options.shape]
    envs = shape.num_envs or num_envs
    return Work(
        env_id=shape.env_id,
        num_envs=envs,
        rollout_length=shape.samples // envs,
        minibatch_size=shape.minibatch_size,
        hidden_sizes=shape.hidden_sizes,
        num_rounds=num_rounds(shape, options.steps),
        seed=options.seed,
        threads=options.threads,
    )


class Stopwatch:
    """Collects the times of rounds and the raw returns of finished episodes."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.returns: list[float] = []
        self._times: list[float] = []

    def round_ended(self) -> None:
        """To be called after each update."""
        self._times.append(time.perf_counter())

    def report(self, *packages: str) -> None:
        """Prints the result with the versions of these packages, as the last line."""
        rounds = len(self._times) - WARMUP_ROUNDS
        seconds = self._times[-1] - self._times[WARMUP_ROUNDS - 1]
        result = {
            "steps_per_second": rounds * self.work.samples / seconds,
            "seconds": seconds,
            **learning(self.returns),
            "num_envs": self.work.num_envs,
            "versions": {name: version(name) for name in (*packages, "torch", "numpy")},
        }
        print(json.dumps(result), flush=True)


def learning(returns: Sequence[float]) -> dict[str, float | None]:
    """Mean raw return of the first and of the last episodes; None where too few have ended to tell them apart."""
    if len(returns) < 2 * NUM_EPISODES:
        return {"first_return": None, "return": None}
    first, last = returns[:NUM_EPISODES], returns[-NUM_EPISODES:]
    return {"first_return": sum(first) / NUM_EPISODES, "return": sum(last) / NUM_EPISODES}


def make_env(stopwatch: Stopwatch):
    """A Gymnasium environment that tells the stopwatch its episodes' returns.

    It takes the place of Monitor or RecordEpisodeStatistics, which cost more.
    """
    import gymnasium

    class Returns(gymnasium.Wrapper):
        def __init__(self, env) -> None:
            super().__init__(env)
            self._sum = 0.0

        def step(self, action):
            obs, reward, terminated, truncated, info = self.env.step(action)
            self._sum += float(reward)
            if terminated or truncated:
                stopwatch.returns.append(self._sum)
                self._sum = 0.0
            return obs, reward, terminated, truncated, info

    return Returns(gymnasium.make(stopwatch.work.env_id))
