"""events.jsonl: what happened in a run besides its metrics, one JSON object a line, written through at once.

Every rank appends to the same file: a line is one write at its end, so that lines never mix.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any


class EventLog:
    """Appends to one file; a resumed run goes on with the same one."""

    def __init__(self, path: Path, rank: int) -> None:
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - lives as long as the run
        self.path, self._rank = path, rank

    def write(self, kind: str, round_index: int, **details: Any) -> None:
        """Adds one event with the time, the rank and the number of rounds done."""
        when = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        event = {"time": when, "rank": self._rank, "round": round_index, "event": kind, **details}
        self._file.write(json.dumps(event).encode() + b"\n")

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
