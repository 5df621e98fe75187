"""What a person sees of a run while it trains: lines that stay, and one for each round."""

from __future__ import annotations

import errno
import io
import math
import os
import shutil
import sys
from collections.abc import Mapping
from typing import TextIO

from ddp_ppo.runs.metric_table import SCORE, STEPS_PER_SECOND, MetricTable, seconds_of
from ddp_ppo.text import duration

_GONE = (errno.EPIPE, errno.EIO, errno.EBADF)  # the reader, the terminal, the stream


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
        """A console that says nothing, for a training within a program."""
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


def progress_line(
    row: Mapping[str, float], table: MetricTable, *, num_rounds: int, recent_return: float, seconds_left: float
) -> str:
    """What one round has to say on the console; recent_return is that of the last episodes that ended."""
    count, total = f"{int(row['round'])}/{num_rounds}", row[seconds_of("round")] or 1.0
    parts = [f"round {count:{2 * len(str(num_rounds)) + 1}}", f"{_steps(row['env_steps']):>4} steps"]
    if not math.isnan(recent_return):
        parts.append(f"return {recent_return:6.1f}")
    shown = {one.console: row.get(one.name, math.nan) for one in table if one.console}
    parts += [f"{word} {value:.4f}" for word, value in shown.items() if not math.isnan(value)]
    parts.append(f"{row[STEPS_PER_SECOND]:6,.0f} steps/s")
    parts.append(" ".join(f"{name} {row[seconds_of(name)] / total:3.0%}" for name in ("sample", "train")))
    parts.append(f"{duration(round(seconds_left))} left")
    if not math.isnan(row[SCORE]):
        parts.append(f"eval {row[SCORE]:.1f}")
    return " | ".join(parts)


def _steps(steps: float) -> str:
    return f"{steps / 1e6:.2f}M" if steps >= 1e6 else f"{steps / 1e3:.0f}k" if steps >= 1e4 else f"{steps:.0f}"
