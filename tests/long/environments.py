"""Environments that misbehave or take their time, for the fault checks; those of fixtures.py come with them.

Registered as `tests.long.environments:Slow-v0` and so on. An environment knows its learner by torchrun's RANK, which
actors inherit. Torch-free, and free of MuJoCo (see mujoco_environments.py).
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gymnasium.spaces import Box, Discrete

from tests.support.fixtures import Count, Misbehaving, column

RANK = int(os.environ.get("RANK", "0"))


class Slow(Count):
    """`Count` whose step takes `seconds` from step `slow_from` on, `factor` times as long on rank `slow_rank`.

    When it is evaluated it is slow only if it `always` is.
    Adds a letter for each step to `folder/<rank>-<pid>-<number>`, so that one sees from outside where it stands.
    """

    def __init__(
        self, seconds=0.0, slow_rank=None, factor=10.0, length=10, folder=None, slow_from=0, always=False
    ) -> None:
        super().__init__(length)
        self.num_steps, self.slow_from = 0, slow_from
        is_evaluated = self.number > 0 and not always  # a run with this environment has one for each actor
        self.seconds = 0.0 if is_evaluated else seconds * (factor if slow_rank == RANK else 1.0)
        self._log = None if folder is None else Path(folder) / f"{RANK}-{os.getpid()}-{self.number}"

    def note(self, letter) -> None:
        if letter == "s":
            super().note(letter)

    def step(self, action):
        time.sleep(self.seconds if self.num_steps >= self.slow_from else 0.0)
        self.num_steps += 1
        return super().step(action)


class Late(Count):
    """`Count` that is built in `seconds`, and says in `folder` that it is being built."""

    def __init__(self, seconds=0.0, length=10, folder=None) -> None:
        super().__init__(length)
        if folder is not None and self.number < 1 and "spawn_main" in Path("/proc/self/cmdline").read_text():
            Path(folder, f"{RANK}-{os.getpid()}-start").touch()
            time.sleep(seconds)


class OnRank(Misbehaving):
    """`Misbehaving` on one rank only; also with finite values that overflow later on.

    "huge_reward": the square of its return is infinite. "huge_gradient": the square of the return is finite, but not
    that of the gradient, since all observations are large.
    """

    def __init__(self, how, rank, at=40, number=0, length=10) -> None:
        super().__init__(how, at, number if rank == RANK else -1, length)

    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        if self.num_steps == self.at and self.number == self.only:
            reward = {"huge_reward": 1e25, "huge_gradient": 1e19}.get(self.how, reward)
        return self.scaled(obs), reward, terminated, truncated, info

    def reset(self, *, seed=None, options=None):
        obs, info = super().reset(seed=seed)
        return self.scaled(obs), info

    def scaled(self, obs):
        """What is observed: large values where the gradient is to overflow."""
        return obs * 0.0 + 1e5 if self.how == "huge_gradient" else obs


class ByRank(Count):
    """Rewards one of two choices, 1000 times as much on rank 1 as on rank 0; observes noise."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return column(self.np_random.standard_normal()), {}

    def step(self, action):
        _, _, terminated, truncated, info = super().step(action)
        return column(self.np_random.standard_normal()), float(action) * 1000.0**RANK, terminated, truncated, info


class FromMinusOne(Count):
    """Actions -1, 0 and 1, of which -1 alone is rewarded; refuses any other."""

    def __init__(self, length=5) -> None:
        super().__init__(length)
        self.action_space = Discrete(3, start=-1)

    def step(self, action):
        if not self.action_space.contains(action):
            raise ValueError(f"{action!r} is no action")
        obs, _, terminated, truncated, info = super().step(action)
        return obs, float(action == -1), terminated, truncated, info


class Shifted(CartPoleEnv):
    """CartPole that observes 1000 times its state plus 500."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = Box(-np.inf, np.inf, (4,), np.float32)

    def reset(self, *, seed=None, options=None):
        obs, info = super().reset(seed=seed, options=options)
        return obs * 1000.0 + 500.0, info

    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        return obs * 1000.0 + 500.0, reward, terminated, truncated, info


for _class in (Slow, Late, OnRank, ByRank, FromMinusOne):
    gymnasium.register(f"{_class.__name__}-v0", entry_point=f"{__name__}:{_class.__name__}")
gymnasium.register("Shifted-v0", entry_point=f"{__name__}:Shifted", max_episode_steps=500)
