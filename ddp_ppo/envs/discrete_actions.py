"""Environments with a Box action as environments with a few choices: a grid over the box, asked for by a setting.

For learners that need discrete actions, and tasks of a few dimensions: choices multiply with each of them.

Shapes: K environments, A dimensions of the Box action, G choices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.envs.spaces import action_grid
from ddp_ppo.envs.step_loop import step_loop
from ddp_ppo.errors import EnvError
from ddp_ppo.protocols import Act, BatchEnv, Column, FloatArray, PlainState, Rows, Step


class DiscreteActions:
    """`BatchEnv` around another one whose actions it replaces by the choices 0 .. G-1 of `action_grid`."""

    def __init__(self, inner: BatchEnv, num_bins: int) -> None:
        """Raises EnvError where the actions are no Box, or not of a few bounded dimensions."""
        try:
            self._grid = action_grid(inner.spec.action.low.tolist(), inner.spec.action.high.tolist(), num_bins)
        except EnvError as error:
            raise EnvError(f"{inner.spec.env_id}: {error}") from None
        self.inner, self.num_envs = inner, inner.num_envs
        size = len(self._grid)
        self.spec = replace(inner.spec, action_kind="discrete", action_size=size, action_low=(), action_high=())

    def step(self, action: NDArray[np.int64]) -> Step:
        """Applies the Box actions of these choices [K]."""
        return self.inner.step(self._grid[action])

    def run_steps(self, act: Act, rows: Rows) -> dict[str, float]:
        """`step_loop.run_steps` by way of the inner environments' own loop."""
        grid = self._grid
        return step_loop(self.inner)(lambda step, obs, choice: grid[act(step, obs, choice)], rows)

    def reset(self, seeds: Sequence[int]) -> FloatArray:
        """As the inner environments."""
        return self.inner.reset(seeds)

    def save(self) -> PlainState | None:
        """As the inner environments."""
        return self.inner.save()

    def restore(self, state: PlainState) -> FloatArray:
        """As the inner environments."""
        return self.inner.restore(state)

    def reward_terms(self) -> Mapping[str, NDArray[np.float64]]:
        """As the inner environments."""
        return self.inner.reward_terms()

    def close(self) -> None:
        """As the inner environments."""
        self.inner.close()


def choice_columns(columns: Sequence[Column], grid: FloatArray) -> tuple[Column, ...]:
    """Names the choices of grid [G, A] after the Box action's columns: "hip -1, knee 0"."""
    units = {column.unit for column in columns}
    unit = units.pop() if len(units) == 1 else ""
    return tuple(
        Column(", ".join(f"{column.name} {value:g}" for column, value in zip(columns, row, strict=True)), unit)
        for row in grid.tolist()
    )
