"""Where the numbers of a run go: a CSV row, the same scalars in TensorBoard, and one console line for each round.

NaN stands for "nothing to report": an empty CSV cell, no TensorBoard point.
"""

from __future__ import annotations

import csv
import errno
import io
import math
import os
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, TextIO

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from ddp_ppo.config.settings import ConfigError
from ddp_ppo.runs.checkpoint import write_atomically
from ddp_ppo.runs.folder import take_lock
from ddp_ppo.runs.tensorboard_pages import layout, session_start

_FLUSH_SECONDS = 5
_GONE = (errno.EPIPE, errno.EIO, errno.EBADF)  # the reader, the terminal, the stream
_RETRY_SECONDS = 1.0
_HEALTH = {"kl": "train/approx_kl", "loss": "train/loss"}  # what the console shows of a learner that reports it
_ROOM = 2**16  # bytes that a disk must have free again before a new event file is tried


def time_metrics(
    metrics: Mapping[str, float], seconds: Mapping[str, float], *, num_steps: int, elapsed_seconds: float
) -> dict[str, float]:
    """A round's `time/*` metrics, in which no second counts twice.

    Args:
        metrics: of the round, which hold its transfer and idle time.
        seconds: sample (with annotate), annotate, train (with transfer), sync, record, and the whole round.
        num_steps: environment steps of all learners.
    """
    transfer = metrics.get("time/transfer_seconds", 0.0)
    split = {
        "sample": max(0.0, seconds["sample"] - seconds["annotate"]),  # with overlap most of it passes unseen
        "annotate": seconds["annotate"],
        "transfer": transfer,
        "train": seconds["train"] - transfer,
        "sync": seconds["sync"],
        "record": seconds["record"],
        "idle": metrics["time/idle_seconds"],
        "round": seconds["round"],
    }
    return {
        "time/steps_per_second": num_steps / seconds["round"],
        "time/elapsed_seconds": elapsed_seconds,
        **{f"time/{name}_seconds": value for name, value in split.items()},
    }


class CsvLog:
    """One row a round, written through at once; a resumed run goes on after the last row that it keeps."""

    def __init__(self, path: Path, *, after_round: int) -> None:
        """Keeps the rows of an existing file up to `after_round` (0: none, the file starts anew).

        Raises:
            ConfigError: an existing file is no CSV file.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = _rows_until(path, after_round) if after_round and path.exists() else []
        self._columns: list[str] = [str(column) for column in kept[0]] if kept else []
        self._path, text = path, self._text(kept).encode()
        write_atomically(path, lambda file: self._begin(file, text))
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - lives as long as the run
        self._pending = b""  # what a full disk has not taken yet

    def _begin(self, file: IO[bytes], text: bytes) -> None:
        """Writes the new file, which has its lock before it has its name."""
        file.write(text)
        self._lock = os.dup(file.fileno())
        take_lock(self._lock, f"{self._path}: another run writes its metrics there; choose another metrics_path")

    def _text(self, rows: list[dict[str, str]]) -> str:
        text = io.StringIO()
        if rows:
            writer = csv.DictWriter(text, self._columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        return text.getvalue()

    def write(self, row: Mapping[str, float]) -> None:
        """Appends one row; every row has the same columns. What cannot be written comes with the next row.

        Raises:
            OSError: it cannot be written, or the file was removed.
        """
        if not os.fstat(self._file.fileno()).st_nlink:
            raise FileNotFoundError(errno.ENOENT, "the file was removed", str(self._path))
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not self._columns:
            self._columns = list(row)
            writer.writerow(self._columns)
        writer.writerow([_cell(row.get(column, math.nan)) for column in self._columns])
        self._pending += text.getvalue().encode()
        while self._pending:
            self._pending = self._pending[self._file.write(self._pending) :]

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
        os.close(self._lock)


def _rows_until(path: Path, last_round: int) -> list[dict[str, str]]:
    try:
        with open(path, newline="", encoding="utf-8") as file:
            whole = [row for row in csv.DictReader(file) if None not in row.values()]  # the last one may be cut off
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{path}: no metrics file to go on with ({error}); move it away") from None
    return [row for row in whole if row.get("round", "").isdigit() and int(row["round"]) <= last_round]


def _cell(value: float) -> str:
    if math.isnan(value):
        return ""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


class TensorBoardLog:
    """Scalars over environment steps; a resumed run hides what an earlier one wrote beyond its checkpoint.

    A writer that has met an error, such as a full disk, takes nothing any more; a new one follows when there is room.
    """

    def __init__(self, folder: Path, *, after_step: int, settings: Mapping[str, Any]) -> None:
        self._folder = folder
        self._writer = EventFileWriter(str(folder), flush_secs=_FLUSH_SECONDS)
        self._failed_at = math.inf  # when the writer last did; infinite as long as it works
        if after_step:
            self._writer.add_event(Event(step=after_step + 1, file_version="brain.Event:2", wall_time=time.time()))
            start = SessionLog(status=SessionLog.START)
            self._writer.add_event(Event(step=after_step + 1, session_log=start, wall_time=time.time()))
        self._pages = [session_start(settings)]  # written with the first row, which tells what there is to show

    def write(self, row: Mapping[str, float], env_steps: int) -> None:
        """Adds one point for every scalar that has something to report."""
        if self._pages:
            pages = Summary(value=[layout(row), *self._pages])
            self._add(Event(step=env_steps, summary=pages, wall_time=time.time()))
            self._pages = []
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in row.items() if not math.isnan(value)]
        self._add(Event(step=env_steps, summary=Summary(value=values), wall_time=time.time()))

    def write_text(self, tag: str, text: str, env_steps: int) -> None:
        """Adds a text, shown in TensorBoard's text tab."""
        metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
        tensor = TensorProto(dtype="DT_STRING", string_val=[text.encode()])
        value = Summary.Value(tag=tag, metadata=metadata, tensor=tensor)
        self._add(Event(step=env_steps, summary=Summary(value=[value]), wall_time=time.time()))

    def _add(self, event: Event) -> None:
        try:
            if time.monotonic() > self._failed_at + _RETRY_SECONDS and shutil.disk_usage(self._folder).free > _ROOM:
                self._writer = EventFileWriter(str(self._folder), flush_secs=_FLUSH_SECONDS)
                self._failed_at = math.inf
            self._writer.add_event(event)
        except OSError:
            self._failed_at = time.monotonic() if math.isinf(self._failed_at) else self._failed_at
            raise

    def flush(self) -> None:
        """Puts everything on disk."""
        self._writer.flush()

    def close(self) -> None:
        """Flushes and closes the file."""
        self._writer.close()


class Console:
    """One line a round; on a terminal the line is overwritten, in a pipe every line stays.

    Never ends a run: a line that a full disk does not take is lost, and nothing is said any more to one who has gone.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        given = stream or sys.stdout  # None where it was closed before Python began
        self._stream = _Silence() if given is None or given.closed else given
        self._is_terminal = self._stream.isatty()
        self._is_line_open = False

    @classmethod
    def silent(cls) -> Console:
        """One that prints nothing."""
        return cls(_Silence())

    def say(self, text: str) -> None:
        """A line that stays."""
        self._end_line()
        self._write(f"{text}\n")

    def progress(self, text: str, *, keep: bool) -> None:
        """The round's line; `keep` leaves it on a terminal too."""
        if not self._is_terminal:
            self._write(f"{text}\n")
            return
        width = shutil.get_terminal_size().columns - 1  # a wrapped line could not be overwritten
        self._write(f"\r\x1b[2K{text if keep else text[:width]}")
        self._is_line_open = True
        if keep:
            self._end_line()

    def _end_line(self) -> None:
        if self._is_line_open:
            self._write("\n")
            self._is_line_open = False

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except UnicodeEncodeError:  # a path that is no text, or a terminal that knows ASCII alone
            self._write(text.encode("ascii", "backslashreplace").decode())
        except OSError as error:
            is_gone = error.errno in _GONE
            _discard(self._stream, is_gone=is_gone)
            self._stream = _Silence() if is_gone else self._stream
        except ValueError:  # closed
            self._stream = _Silence()


class _Silence(io.StringIO):
    """Takes everything and keeps nothing."""

    def write(self, text: str, /) -> int:
        return len(text)


def _discard(stream: TextIO, *, is_gone: bool) -> None:
    """Empties what the stream could not write, which Python would try again at its exit and fail."""
    descriptor = stream.fileno()
    kept = os.dup(descriptor)
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), descriptor)
    stream.flush()
    if not is_gone:
        os.dup2(kept, descriptor)
    os.close(kept)


def progress_line(row: Mapping[str, float], *, num_rounds: int, recent_return: float, seconds_left: float) -> str:
    """What one round has to say on the console; recent_return is that of the last episodes that ended."""
    count, total = f"{int(row['round'])}/{num_rounds}", row["time/round_seconds"] or 1.0
    parts = [f"round {count:{2 * len(str(num_rounds)) + 1}}", f"{_steps(row['env_steps']):>4} steps"]
    if not math.isnan(recent_return):
        parts.append(f"return {recent_return:6.1f}")
    parts += [f"{name} {row[tag]:.4f}" for name, tag in _HEALTH.items() if not math.isnan(row.get(tag, math.nan))]
    parts.append(f"{row['time/steps_per_second']:6,.0f} steps/s")
    parts.append(" ".join(f"{name} {row[f'time/{name}_seconds'] / total:3.0%}" for name in ("sample", "train")))
    parts.append(f"{_duration(seconds_left)} left")
    if not math.isnan(row["eval/return_mean"]):
        parts.append(f"eval {row['eval/return_mean']:.1f}")
    return " | ".join(parts)


def _steps(steps: float) -> str:
    return f"{steps / 1e6:.2f}M" if steps >= 1e6 else f"{steps / 1e3:.0f}k" if steps >= 1e4 else f"{steps:.0f}"


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{seconds:02d}s" if minutes else f"{seconds}s"
