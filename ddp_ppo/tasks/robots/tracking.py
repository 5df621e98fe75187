"""How well a policy follows a fixed sequence of commands: the quadruped's own criterion, next to its return.

A policy reaches the standard if its mean errors are below `STANDARD` and no robot falls in 20 episodes of 20 s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.protocols import FloatArray
from ddp_ppo.tasks.robots.quadruped import Quadruped

STANDARD = (0.15, 0.2)  # m/s and rad/s
# Rows of seconds, m/s forwards, m/s to the left, rad/s: 20 s in all.
COMMANDS = (
    (3.0, 0.5, 0.0, 0.0),
    (3.0, 1.0, 0.0, 0.0),
    (3.0, 0.0, 0.4, 0.0),
    (3.0, 0.0, 0.0, 0.8),
    (2.0, 0.0, 0.0, 0.0),
    (3.0, 0.6, 0.0, -0.6),
    (3.0, -0.5, 0.0, 0.0),
)


@dataclass(frozen=True, kw_only=True)
class Tracking:
    """What came of it.

    Attributes:
        error_velocity, error_turn: means over all steps in m/s and rad/s, changes of the command included.
        falls: how many robots fell.
        by_command: both errors for each row of the commands.
    """

    error_velocity: float
    error_turn: float
    falls: int
    by_command: tuple[tuple[float, float], ...]

    @property
    def is_standard(self) -> bool:
        """Whether the policy follows as well as `STANDARD` asks for, without a fall."""
        return self.error_velocity < STANDARD[0] and self.error_turn < STANDARD[1] and not self.falls


def follow(
    policy: Callable[[FloatArray], NDArray[Any]],
    *,
    commands: Sequence[Sequence[float]] = COMMANDS,
    episodes: int = 20,
    seed: int = 0,
    **env_kwargs: Any,
) -> Tracking:
    """Runs episodes next to each other, each once through the commands; one that ends is replaced by another.

    Args:
        policy: from observations [K, D] to actions [K, 12], as `ddp_ppo.load_policy` returns it.
        commands: rows of seconds, forwards, left, turn.
        seed: of the first episode.
        env_kwargs: further arguments of `Quadruped`.
    """
    seconds = [float(row[0]) for row in commands]
    task = Quadruped(episodes, commands=commands, episode_seconds=sum(seconds) + 1.0, **env_kwargs)
    obs = task.reset(range(seed, seed + episodes))
    errors, falls = [], 0
    for _ in range(round(sum(seconds) / task.step_seconds)):
        result = task.step(policy(obs))
        obs = result.obs
        errors.append([values.mean() for values in task.measured.values()])
        falls += int(np.count_nonzero(result.terminated))
    bounds = np.rint(np.cumsum([0.0, *seconds]) / task.step_seconds).astype(int)
    rows = [np.mean(errors[start:stop], axis=0) for start, stop in pairwise(bounds)]
    velocity, turn = np.mean(errors, axis=0).tolist()
    by_command = tuple((float(row[0]), float(row[1])) for row in rows)
    return Tracking(error_velocity=velocity, error_turn=turn, falls=falls, by_command=by_command)
