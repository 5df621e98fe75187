"""events.jsonl: what happened in a run besides its metrics, one JSON object a line, written through at once."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any


class EventLog:
    """Appends to one file; a resumed run goes on with the same one."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "a")  # noqa: SIM115 - lives as long as the run

    def write(self, kind: str, round_index: int, **details: Any) -> None:
        """Adds one event with the time and the number of rounds done."""
        event = {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "round": round_index, "event": kind, **details}
        self._file.write(json.dumps(event) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
