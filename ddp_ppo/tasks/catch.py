"""Catch (Mnih et al. 2014): a ball falls down a small board, a paddle on the last row has to be under it.

A task with a late reward that takes seconds to learn; use it as `env_id: ddp_ppo.tasks.catch:Catch-v0`.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from ddp_ppo.protocols import PlainState

ENV_ID = "Catch-v0"
_SIZE = 8


class Catch(gymnasium.Env[NDArray[Any], np.int64]):
    """Observation: the board [64], 1 for ball and paddle. Actions: left, stay, right. Reward at the end: 1 or -1."""

    def __init__(self, is_image: bool = False) -> None:
        """The board is [64] numbers, or a grey image of bytes [8, 8, 1] that has 255 in place of 1."""
        flat, image = Box(0.0, 1.0, (_SIZE * _SIZE,), np.float32), Box(0, 255, (_SIZE, _SIZE, 1), np.uint8)
        self.observation_space: Box = image if is_image else flat
        self.action_space = Discrete(3)
        self._row = self._column = self._paddle = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """The ball starts in a random column of the first row, the paddle in the middle."""
        super().reset(seed=seed)
        self._row, self._column, self._paddle = 0, int(self.np_random.integers(_SIZE)), _SIZE // 2
        return self._obs(), {}

    def step(self, action: np.int64) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        """Moves the paddle by -1, 0 or 1 and the ball down by one row."""
        self._paddle = min(max(self._paddle + int(action) - 1, 0), _SIZE - 1)
        self._row += 1
        has_ended = self._row == _SIZE - 1
        reward = (1.0 if self._paddle == self._column else -1.0) if has_ended else 0.0
        return self._obs(), reward, has_ended, False, {}

    def get_state(self) -> PlainState:
        """All there is to know, the generator included."""
        places = {"row": self._row, "column": self._column, "paddle": self._paddle}
        return {**places, "rng": self.np_random.bit_generator.state}

    def set_state(self, state: PlainState) -> None:
        """Continues from what `get_state` returned."""
        self._row, self._column, self._paddle = state["row"], state["column"], state["paddle"]
        self.np_random.bit_generator.state = state["rng"]

    def _obs(self) -> NDArray[Any]:
        board = np.zeros((_SIZE, _SIZE), np.float32)
        board[self._row, self._column] = board[-1, self._paddle] = 1.0
        space = self.observation_space
        return np.asarray(board * space.high.max(), space.dtype).reshape(space.shape)


gymnasium.register(ENV_ID, f"{__name__}:{Catch.__name__}", reward_threshold=1.0)
