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

_MARK = ("round", "time/elapsed_seconds")  # no two runs have the same time


class CsvLog:
    """Writes each row to the disk at once; a resumed run goes on after the last row that it keeps.

    A metric has a column from the first row that names it, behind the columns that are there; the earlier rows get an
    empty cell. For that a new file takes the place of the old one, so a reader never finds half of it.

    Attributes:
        reported: names of the metrics that have a value in the rows that a resumed run keeps.
        first: round and time of the first row as text, by which a run knows its file again; None before there is one.
    """

    def __init__(self, path: Path, *, after_round: int) -> None:
        """Keeps the rows of an existing file up to `after_round`; with 0 the file starts empty.

        Raises:
            ConfigError: an existing file is not a CSV file.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._columns, rows = _rows_until(path, after_round) if after_round and path.exists() else ([], [])
        self.first = _mark(self._columns, rows)
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
        if self.first is None:
            self.first = [_cell(row.get(name, math.nan)) for name in _MARK]
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


def log_notes(path: Path, *, first: Sequence[str] | None, last_round: int, is_own: bool) -> list[str]:
    """What a person should know of the file that a run goes on with after this round, before anything is written.

    Args:
        first: `CsvLog.first` of the run; None where nobody knows it.
        is_own: whether it lies in the run's own folder, where no other run writes.

    Raises:
        ConfigError: it holds the rows of another run, or is not a CSV file.
    """
    if not path.exists():
        return [f"{path} is missing: its rows start with round {last_round + 1}"] if last_round else []
    columns, rows = _complete_rows(path)
    found = _mark(columns, rows)
    if not is_own and None not in (first, found) and found != list(first or ()):
        raise ConfigError(f"metrics_path: {path} holds the metrics of another run; name another file or move it away")
    there = {int(row[columns.index("round")]) for row in rows}
    begin = int(first[0]) if first and first[0] else 1
    lost = [number for number in range(begin, last_round + 1) if number not in there]
    if not lost:
        return []
    words = f"round {lost[0]}" if len(lost) == 1 else f"{len(lost)} rounds from {lost[0]} to {lost[-1]}"
    return [f"{path} lacks {words}: it was cut or could not be written; TensorBoard may still show them"]


def _complete_rows(path: Path) -> tuple[list[str], list[list[str]]]:
    """The header and the complete rows of a file.

    A row that was cut in writing is left out: it lacks cells, or the end of its line and so, perhaps, digits.
    """
    try:
        text = path.read_bytes().decode()
        header, *rows = list(csv.reader(io.StringIO(text[: text.rfind("\n") + 1], newline=""))) or [[]]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{path}: no metrics file to go on with ({error}); move it away") from None
    if "round" not in header:
        return [], []
    place = header.index("round")
    return header, [row for row in rows if len(row) == len(header) and row[place].isdigit()]


def _rows_until(path: Path, last_round: int) -> tuple[list[str], list[list[str]]]:
    """The header and the complete rows up to a round."""
    header, rows = _complete_rows(path)
    kept = [row for row in rows if int(row[header.index("round")]) <= last_round]
    return (header, kept) if kept else ([], [])


def _mark(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str] | None:
    """Round and time of the first row."""
    return [row[columns.index(name)] if name in columns else "" for row in rows[:1] for name in _MARK] or None


def _text(rows: Iterable[Sequence[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _cell(value: float) -> str:
    if math.isnan(value):
        return ""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))
