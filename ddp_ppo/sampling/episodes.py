"""Whole episodes with a fixed policy: deterministic actions, frozen statistics, the same seeds each time. Torch-free.

Matrix products depend in their last bits on the number of rows, so every evaluation runs in blocks of EVAL_BLOCK
environments, the last one padded: the same seeds then give the same returns whoever runs them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ddp_ppo.maths.seeding import Purpose, integer_seed, kept_global_generators, seed_global_generators
from ddp_ppo.protocols import BatchEnv
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


def blocks_of(seeds: Sequence[int]) -> list[list[int]]:
    """Cuts seeds into the blocks that one environment batch runs at a time."""
    return [list(seeds[start : start + EVAL_BLOCK]) for start in range(0, len(seeds), EVAL_BLOCK)]


def padded_block(seeds: Sequence[int]) -> list[int]:
    """EVAL_BLOCK seeds, the last one repeated where there are fewer."""
    return [*seeds, *[seeds[-1]] * (EVAL_BLOCK - len(seeds))]


def run_block(env: BatchEnv, chooser: Chooser, seeds: Sequence[int]) -> list[Episode]:
    """Runs one episode for each of at most EVAL_BLOCK seeds; env has exactly EVAL_BLOCK environments.

    The global generators of `random` and NumPy, which some environments draw from, are seeded by the block, and put
    back in the end.
    """
    with kept_global_generators():
        seed_global_generators(seeds[0])
        return _run_block(env, chooser, seeds)


def _run_block(env: BatchEnv, chooser: Chooser, seeds: Sequence[int]) -> list[Episode]:
    padded = padded_block(seeds)
    obs = env.reset(padded)
    total = np.zeros(EVAL_BLOCK)
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
