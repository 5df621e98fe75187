"""Text for people: times, lists that are cut, aligned tables, and entries that stay within a line's width."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Sequence, Sized

WIDTH = 120
NAME_WIDTH = 15  # of an entry's name, such as "look at it"


def duration(seconds: float) -> str:
    """A time in one or two units: 12.3 s, 4 min 05 s, 2 h 10 min."""
    if round(seconds, 1) < 60.0:
        return f"{round(seconds, 1):g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def and_more(items: Sized, most: int) -> str:
    """How many items there are beyond the first `most`: "and 3 more"; empty where there are none."""
    return f"and {len(items) - most:,} more" if len(items) > most else ""


def listed(names: Sequence[str], most: int) -> str:
    """The first `most` names, and how many more there are: a, b and 3 more."""
    return " ".join(filter(None, (", ".join(names[:most]), and_more(names, most))))


def table(rows: Sequence[Sequence[str]], num_left: int = 1) -> str:
    """Aligned columns, the first `num_left` to the left, the others to the right; one row at least.

    Columns for which the terminal (or COLUMNS) has no room follow in a table below, behind the first ones again.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    first = max(num_left, 1)
    lines: list[str] = []
    for start, end in _parts(widths, first, shutil.get_terminal_size((WIDTH, 1)).columns):
        shown = [*range(first), *range(start, end)]
        lines += [""] if lines else []
        lines += [
            "  ".join(f"{row[i]:{'<' if i < num_left else '>'}{widths[i]}}" for i in shown).rstrip() for row in rows
        ]
    return "\n".join(lines)


def _parts(widths: Sequence[int], first: int, room: int) -> Iterator[tuple[int, int]]:
    """Ranges of columns that fit side by side behind the first ones, one column at least in each."""
    start = end = first
    used = left = sum(widths[:first]) + 2 * (first - 1)
    while end < len(widths):
        if end > start and used + 2 + widths[end] > room:
            yield start, end
            start, used = end, left
        used += 2 + widths[end]
        end += 1
    yield start, end


def entry(name: str, words: str, name_width: int = NAME_WIDTH) -> str:
    """A name and words, which go on below each other where they are too long; their own line breaks stay."""
    lines = [part for line in words.splitlines() for part in _wrapped(line, WIDTH - name_width)]
    return "\n".join(f"{name if i == 0 else '':{name_width}}{line}" for i, line in enumerate(lines))


def _wrapped(line: str, width: int) -> list[str]:
    return textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False)
