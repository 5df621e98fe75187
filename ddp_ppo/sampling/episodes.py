"""Whole episodes with a fixed policy: deterministic actions, frozen statistics, the same seeds each time. Torch-free.

Matrix products depend in their last bits on the number of rows, so a policy always acts on blocks of EVAL_BLOCK
observations, and `InBlock` fills the rows for which there is no environment: the same seeds then give the same returns
whoever runs them, in however many environments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.maths.seeding import Purpose, integer_seed, kept_global_generators, seed_global_generators
from ddp_ppo.protocols import BatchEnv, BoolArray, FloatArray
from ddp_ppo.sampling.drive import Chooser, Transition, drive

EVAL_BLOCK = 5
ENDLESS_STEPS = 10_000  # an episode that neither ends nor has a limit is cut here


class Episode(NamedTuple):
    """One finished episode: its seed, the sum of its raw rewards, its steps, and why it ended.

    A value that is not finite ends it too; `end` then names the value, such as "reward nan".
    """

    seed: int
    episode_return: float
    length: int
    end: str  # "terminated", "truncated" or "cut"

    @property
    def fault(self) -> str:
        """Which value was not finite and where; empty if all were."""
        is_whole = self.end in ("terminated", "truncated", "cut")
        return "" if is_whole else f"{self.end} in step {self.length} of the episode of seed {self.seed}"


def evaluation_seeds(seed: int, num_episodes: int) -> list[int]:
    """The environment seeds that every evaluation of a run with this seed uses."""
    return [integer_seed(seed, Purpose.EVALUATION, episode) for episode in range(num_episodes)]


def blocks_of(seeds: Sequence[int], size: int = EVAL_BLOCK) -> list[list[int]]:
    """Cuts seeds into the blocks that one environment batch runs at a time."""
    return [list(seeds[start : start + size]) for start in range(0, len(seeds), size)]


def padded_seeds(seeds: Sequence[int], num_envs: int) -> list[int]:
    """One seed for each environment, the last one repeated where there are fewer."""
    return [*seeds, *[seeds[-1]] * (num_envs - len(seeds))]


def num_instances(num_episodes: int, num_actors: int, limit: int | None) -> list[int]:
    """How many environments each actor builds for evaluations, with so many (None: any number) for all of them.

    0: the actor has no block to run, or runs it in the environments that it trains in.
    """
    num_busy = min(num_actors, len(blocks_of(range(num_episodes))))
    wanted = min(EVAL_BLOCK, num_episodes)
    left = wanted * num_busy if limit is None else limit
    shares = [left // num_busy + (actor < left % num_busy) for actor in range(num_busy)]
    return [min(wanted, share) for share in shares] + [0] * (num_actors - num_busy)


class InBlock:
    """A chooser for EVAL_BLOCK rows, at play in K environments, which are its rows from `first` on."""

    def __init__(self, chooser: Chooser, num_envs: int, first: int = 0) -> None:
        self._chooser = chooser
        self._env_of_row = np.clip(np.arange(EVAL_BLOCK) - first, 0, num_envs - 1)
        self._row_of_env = np.clip(np.arange(num_envs) + first, 0, EVAL_BLOCK - 1)

    def choose(self, obs: FloatArray) -> NDArray[Any]:
        """See `Chooser`; obs is [K, D]."""
        return self._chooser.choose(obs[self._env_of_row])[self._row_of_env]

    def after(self, ended: BoolArray) -> None:
        """See `Chooser`; ended is [K]."""
        self._chooser.after(ended[self._env_of_row])


def run_block(env: BatchEnv, begin: Callable[[], Chooser], seeds: Sequence[int]) -> list[Episode]:
    """Runs one episode for each of at most EVAL_BLOCK seeds, as many at a time as there are environments.

    The global generators of `random`, NumPy and torch, which some environments draw from, are seeded by the block, and
    put back in the end.

    Args:
        begin: gives a chooser for EVAL_BLOCK rows at the beginning of its episodes.
    """
    episodes: list[Episode] = []
    with kept_global_generators():
        seed_global_generators(seeds[0])
        for part in blocks_of(seeds, min(env.num_envs, EVAL_BLOCK)):
            episodes += _run_part(env, InBlock(begin(), env.num_envs, len(episodes)), part)
    return episodes


def _run_part(env: BatchEnv, chooser: Chooser, seeds: Sequence[int]) -> list[Episode]:
    padded = padded_seeds(seeds, env.num_envs)
    obs = env.reset(padded)
    total = np.zeros(env.num_envs)
    limit = env.spec.max_episode_steps or ENDLESS_STEPS
    episodes: dict[int, Episode] = {}
    for step, transition in zip(range(1, limit + 1), drive(env, chooser, obs), strict=False):
        total += transition.step.reward
        for i, end in _ended(transition):
            episodes.setdefault(i, Episode(padded[i], float(total[i]), step, end))
        if episodes.keys() >= set(range(len(seeds))):
            break
    for i, seed in enumerate(seeds):
        episodes.setdefault(i, Episode(seed, float(total[i]), limit, "cut"))
    return [episodes[i] for i in range(len(seeds))]


def _ended(transition: Transition) -> Iterator[tuple[int, str]]:
    """Environments whose episode is over with this step, and why."""
    result, is_over = transition.step, transition.ended
    is_known = np.isfinite(result.obs).all(axis=1)
    for i in np.flatnonzero(is_over | ~is_known | ~np.isfinite(result.reward)).tolist():
        if not np.isfinite(result.reward[i]):
            yield i, f"reward {result.reward[i]}"
        elif is_over[i]:
            yield i, "terminated" if result.terminated[i] else "truncated"
        else:
            yield i, f"observation {next(value for value in result.obs[i] if not np.isfinite(value))}"
