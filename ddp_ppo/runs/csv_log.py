"""metrics.csv: a row per round and a column per metric, in a file that can be read at any moment.

NaN stands for "nothing to report", which is an empty cell.
"""

from __future__ import annotations

import csv
import errno
import io
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from ddp_ppo.config.settings import ConfigError
from ddp_ppo.runs.files import write_atomically
from ddp_ppo.runs.folder import take_lock


class CsvLog:
    """Writes each row to the disk at once; a resumed run goes on after the last row that it keeps.

    A metric has a column from the first row that names it, behind the columns that are there; the earlier rows get an
    empty cell. For that a new file takes the place of the old one, so a reader never finds half of it.

    Attributes:
        reported: names of the metrics that have a value in the rows that a resumed run keeps.
    """

    def __init__(self, path: Path, *, after_round: int) -> None:
        """Keeps the rows of an existing file up to `after_round`; with 0 the file starts empty.

        Raises:
            ConfigError: an existing file is not a CSV file.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._columns, rows = _rows_until(path, after_round) if after_round and path.exists() else ([], [])
        self.reported = {name for name, *cells in zip(self._columns, *rows, strict=True) if any(cells)}
        self._waiting: list[Mapping[str, float]] = []  # rows that have not become text yet
        self._pending = b""  # text that a full disk has not taken yet
        self._opened = ExitStack()
        self._replace([self._columns, *rows] if rows else [])

    def write(self, row: Mapping[str, float]) -> None:
        """Appends a row, with a new column for each name that no row has had. What fails comes with the next row.

        Raises:
            OSError: it cannot be written, or the file was removed.
        """
        self._waiting.append(dict(row))
        if not os.fstat(self._file.fileno()).st_nlink:
            raise FileNotFoundError(errno.ENOENT, "the file was removed", str(self._path))
        while self._waiting:
            first = self._waiting[0]
            if new := [name for name in first if name not in self._columns]:
                self._add_columns(new)
            cells = [_cell(first.get(column, math.nan)) for column in self._columns]
            self._pending += _text([cells])
            del self._waiting[0]
        while self._pending:
            self._pending = self._pending[self._file.write(self._pending) :]

    def close(self) -> None:
        """Closes the file."""
        self._opened.close()

    def _add_columns(self, names: Sequence[str]) -> None:
        self._file.seek(0)
        text = (self._file.read() + self._pending).decode()
        header, *rows = list(csv.reader(io.StringIO(text, newline=""))) or [[]]
        self._replace([[*header, *names], *([*row, *([""] * len(names))] for row in rows)])
        self._columns, self._pending = [*self._columns, *names], b""

    def _replace(self, rows: Iterable[Sequence[str]]) -> None:
        """Writes these rows to a new file, which has its lock before it has the old one's name."""
        with ExitStack() as stack:

            def fill(file: IO[bytes]) -> None:
                file.write(_text(rows))
                lock = os.dup(file.fileno())
                stack.callback(os.close, lock)
                take_lock(lock, f"{self._path}: another run writes its metrics there; choose another metrics_path")

            write_atomically(self._path, fill)
            self._file = stack.enter_context(open(self._path, "a+b", buffering=0))
            self._opened.close()
            self._opened = stack.pop_all()


def _rows_until(path: Path, last_round: int) -> tuple[list[str], list[list[str]]]:
    """The header and the complete rows up to a round; the last row of a run that was killed may be cut off."""
    try:
        with open(path, newline="", encoding="utf-8") as file:
            header, *rows = list(csv.reader(file)) or [[]]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{path}: no metrics file to go on with ({error}); move it away") from None
    rounds = [row[header.index("round")] if "round" in header and len(row) == len(header) else "" for row in rows]
    kept = [row for row, number in zip(rows, rounds, strict=True) if number.isdigit() and int(number) <= last_round]
    return (header, kept) if kept else ([], [])


def _text(rows: Iterable[Sequence[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _cell(value: float) -> str:
    if math.isnan(value):
        return ""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))
