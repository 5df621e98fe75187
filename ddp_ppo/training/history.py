"""What a run leaves for the program that has called `train`: how it ended, and its rows as columns."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

OnRound = Callable[[Mapping[str, float]], bool | None]  # is given a round's row; False ends the run


@dataclass(frozen=True, kw_only=True)
class TrainingResult:
    """How a run ended.

    Attributes:
        folder: the run's folder; None for a surplus process.
        rounds, env_steps: done in all, earlier sessions of a resumed run included.
        eval_return, best_return: last and best mean evaluation return; NaN without one.
        stop_signal: the signal that ended the run early, None if it ran to its end.
        unwritten: files and folders that lack what was to be written last, as where a disk is full.
        metrics: name -> one value for each round that this call has trained; NaN where a round had none.
    """

    folder: Path | None
    rounds: int = 0
    env_steps: int = 0
    eval_return: float = math.nan
    best_return: float = math.nan
    stop_signal: int | None = None
    unwritten: tuple[Path, ...] = ()
    metrics: Mapping[str, NDArray[np.float64]] = field(default_factory=dict, repr=False)


class History:
    """Grows by a row per round; 8 bytes for each number, so that a million rounds fit into memory."""

    def __init__(self) -> None:
        self._columns: dict[str, array[float]] = {}
        self._num_rows = 0

    def add(self, row: Mapping[str, float]) -> None:
        """Appends a row; it may lack names that others have, and bring new ones."""
        for name in row:
            if name not in self._columns:
                self._columns[name] = array("d", [math.nan]) * self._num_rows
        for name, column in self._columns.items():
            column.append(row.get(name, math.nan))
        self._num_rows += 1

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Each name's values, one for each row; NaN where a row lacked it."""
        return {name: np.array(column) for name, column in self._columns.items()}
