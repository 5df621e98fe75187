"""What a run leaves for the program that has called `train`: how it ended, and its rows as columns."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

OnRound = Callable[[dict[str, float]], object]  # is given a copy of a round's row; False ends the run


@dataclass(frozen=True, kw_only=True)
class TrainingResult:
    """How a run ended.

    Attributes:
        home: the run's folder, an absolute path; None for a process that has not trained.
        rounds, env_steps: done in total, earlier sessions of a resumed run included.
        eval_return, best_return: last and best mean evaluation return; NaN without one.
        stop_signal: the signal that ended the run early; None if it ran to its end, or on_round ended it.
        unwritten: files and folders that lack what was to be written last, as where a disk is full.
        metrics: name -> one value for each round that this call has trained; NaN where a round had none.
    """

    home: Path | None
    rounds: int = 0
    env_steps: int = 0
    eval_return: float = math.nan
    best_return: float = math.nan
    stop_signal: int | None = None
    unwritten: tuple[Path, ...] = ()
    metrics: Mapping[str, NDArray[np.float64]] = field(default_factory=dict, repr=False)

    @property
    def folder(self) -> Path:
        """The run's folder, an absolute path.

        Raises:
            RuntimeError: this process has not trained.
        """
        if self.home is None:
            raise RuntimeError("this process has no run: there are more processes than learners, or it was stopped")
        return self.home


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
