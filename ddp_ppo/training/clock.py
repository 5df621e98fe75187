"""Where the time of a round goes: seconds of each stage, and of all of them together."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """Adds up seconds of stages, which follow each other and hold no other one: `with clock("sample"): ...`."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = defaultdict(float)
        self._stage: str | None = None
        self._since = 0.0

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Counts what lies within for this stage."""
        self._turn_to(stage)
        try:
            yield
        finally:
            self._turn_to(None)

    def lap(self) -> dict[str, float]:
        """Seconds of each stage since the last lap, the running one included, and as "round" their sum."""
        self._turn_to(self._stage)
        seconds, self._seconds = self._seconds, defaultdict(float)
        return {**seconds, "round": sum(seconds.values())}

    def _turn_to(self, stage: str | None) -> None:
        now = time.perf_counter()
        if self._stage is not None:
            self._seconds[self._stage] += now - self._since
        self._stage, self._since = stage, now
