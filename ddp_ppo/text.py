"""Text for a terminal: aligned tables, and entries of a name and words that stay within a line's width."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

WIDTH = 120
NAME_WIDTH = 15  # of an entry's name, such as "look at it"


def table(rows: Sequence[Sequence[str]], num_left: int = 1) -> str:
    """Aligned columns, the first `num_left` to the left, the others to the right; one row at least."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = zip(row, widths, strict=True)
        lines.append(
            "  ".join(f"{cell:{'<' if i < num_left else '>'}{width}}" for i, (cell, width) in enumerate(cells))
        )
    return "\n".join(line.rstrip() for line in lines)


def entry(name: str, words: str, name_width: int = NAME_WIDTH) -> str:
    """A name and words, which go on below each other where they are too long; their own line breaks stay."""
    lines = [part for line in words.splitlines() for part in _wrapped(line, WIDTH - name_width)]
    return "\n".join(f"{name if i == 0 else '':{name_width}}{line}" for i, line in enumerate(lines))


def _wrapped(line: str, width: int) -> list[str]:
    return textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False)
