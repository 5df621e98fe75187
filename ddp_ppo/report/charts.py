"""Line charts as hand-written SVG: whole without a script, and with the points from which a script shows values.

Made for cards of 320 to 560 pixels. Colours are classes s0 .. s7 of the page, by a series' place. Torch-free.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import pairwise
from typing import NamedTuple

_WIDTH, _HEIGHT = 420.0, 190.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 44.0, 412.0, 8.0, 168.0  # of the plot
_PAD = 3.0  # around the plot, so that dots at its edge are whole
_NUM_COLOURS = 8
_MAX_BUCKETS = 150  # a longer curve keeps the lowest and the highest point of each
_NUM_TICKS = 5
_FAR = 3.0  # what lies further out than this many times the usual range does not stretch an axis
_MARGIN = 0.04  # of an axis' range

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Series:
    """One curve.

    Attributes:
        x, y: the points in the order of x, each finite.
        low, high: edges of a band around it, at the same x; empty without one.
        has_dots: marks every point, for curves of few points.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    has_dots: bool = False


@dataclass(frozen=True)
class Chart:
    """What is drawn.

    Attributes:
        x_name: unit of x in the plural; charts with the same one share their cursor.
        x_start: where the x axis starts.
        note: a line below.
        is_log: a logarithmic y axis; points that are not positive are left out.
        is_stacked: areas on top of each other; all series have the same x.
        marks: (value, label) of horizontal lines, drawn where they are not far from the curves.
        moments: x of vertical lines.
    """

    title: str
    series: Sequence[Series]
    x_name: str = "environment steps"
    note: str = ""
    is_log: bool = False
    is_stacked: bool = False
    marks: Sequence[tuple[float, str]] = ()
    moments: Sequence[float] = ()
    x_start: float = 0.0


class Axis(NamedTuple):
    """Maps [low, high] to pixels [start, end]; low and high are exponents of ten on a logarithmic one."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def pixel(self, value: float) -> float:
        """Where a value lies; the range of a logarithmic axis is positive."""
        place = math.log10(value) if self.is_log else value
        return self.start + (place - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round values within the range."""
        if not self.is_log:
            return linear_ticks(self.low, self.high)
        exponents = range(math.ceil(self.low), math.floor(self.high) + 1)
        factors = (1,) if len(exponents) > 2 else (1, 2, 5)
        every = max(1, math.ceil(len(exponents) / _NUM_TICKS))
        powers = range(math.floor(self.low), math.floor(self.high) + 1)
        values = (factor * 10.0**power for power in powers for factor in factors)
        return [value for value in values if self.low <= math.log10(value) <= self.high][::every]


def chart_html(chart: Chart) -> str:
    """A `<figure>`: title, legend with the last values, SVG, and the points as JSON; empty where there is no point."""
    series = list(chart.series)
    if chart.is_log:
        series = [_positive(one) for one in series]
    if not any(one.x for one in series):
        return ""
    drawn = _stacked(series) if chart.is_stacked else [_thinned(one) for one in series]
    xs = [x for one in drawn for x in one.x]
    x_axis = Axis(*_apart(min(chart.x_start, *xs), max(xs)), _LEFT, _RIGHT)
    y_axis, num_outside = _y_axis(chart, drawn)
    x, y, width, height = _LEFT - _PAD, _TOP - _PAD, _RIGHT - _LEFT + 2 * _PAD, _BOTTOM - _TOP + 2 * _PAD
    inner = "".join((*_rules(chart, x_axis, y_axis), *_curves(chart, drawn, x_axis, y_axis)))
    notes = (
        "Logarithmic axis." if chart.is_log else "",
        f"Not shown: {num_outside} far outside." if num_outside else "",
    )
    note = " ".join(filter(None, (chart.note, *notes)))
    return (
        f'<figure class="chart" data-x="{escape(chart.x_name)}">'
        f"<figcaption><b>{escape(chart.title)}</b><output></output></figcaption>"
        f'<p class="legend">{"".join(map(_key, range(len(series)), series))}</p>'
        f'<svg viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img" aria-label="{escape(chart.title)}">'
        f"{_scales(x_axis, y_axis)}"
        f'<svg x="{x}" y="{y}" width="{width}" height="{height}" viewBox="{x} {y} {width} {height}">{inner}</svg>'
        f'<line class="cursor" y1="{_TOP}" y2="{_BOTTOM}"/></svg>'
        f'<script type="application/json">{_points_json(x_axis, map(_thinned, series))}</script>'
        + (f'<p class="note">{escape(note)}</p>' if note else "")
        + "</figure>"
    )


def number(value: float) -> str:
    """A figure for reading: four digits or more, with commas; the page's script does the same."""
    if abs(value) >= 1e5 or value == 0.0:
        return f"{value:,.0f}"
    if abs(value) < 1e-4:
        return f"{value:.3e}"
    return f"{value:.4g}" if abs(value) < 1e3 else f"{value:,.1f}".removesuffix(".0")


def short_number(value: float) -> str:
    """A round figure for an axis: 300k, 1.5M, 0.02."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size * (10 if letter == "k" else 1):
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"


def linear_ticks(low: float, high: float) -> list[float]:
    """About five multiples of 1, 2 or 5 times a power of ten within [low, high]."""
    rough = (high - low) / _NUM_TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    return [index * step for index in range(math.ceil(low / step), math.floor(high / step) + 1)]


def thin(y: Sequence[float], num_buckets: int = _MAX_BUCKETS) -> list[int]:
    """Indices of the points to keep: the lowest and the highest of each bucket, so that no spike is lost."""
    if len(y) <= 2 * num_buckets:
        return list(range(len(y)))
    edges = [len(y) * bucket // num_buckets for bucket in range(num_buckets + 1)]
    kept = {0, len(y) - 1}
    for start, end in pairwise(edges):
        kept |= {min(range(start, end), key=y.__getitem__), max(range(start, end), key=y.__getitem__)}
    return sorted(kept)


def _thinned(series: Series) -> Series:
    return _picked(series, thin(series.y))


def _positive(series: Series) -> Series:
    return _picked(series, [i for i, y in enumerate(series.y) if y > 0.0])


def _picked(series: Series, kept: Sequence[int]) -> Series:
    x, y, low, high = ([v[i] for i in kept] if v else [] for v in (series.x, series.y, series.low, series.high))
    return replace(series, x=x, y=y, low=low, high=high)


def _stacked(series: Sequence[Series]) -> list[Series]:
    """Each series as the band between the sums below and above it."""
    stacked, below = [], [0.0] * len(series[0].x)
    for one in series:
        above = [low + y for low, y in zip(below, one.y, strict=True)]
        stacked.append(replace(one, y=above, low=below, high=above))
        below = above
    return stacked


def _y_axis(chart: Chart, drawn: Sequence[Series]) -> tuple[Axis, int]:
    """The axis, and how many points of curves lie beyond it."""
    values = sorted(value for one in drawn for value in (*one.y, *one.low, *one.high))
    if chart.is_stacked:
        return Axis(0.0, values[-1], _BOTTOM, _TOP), 0
    if chart.is_log:
        low, high = math.log10(values[0]), math.log10(values[-1])
        return Axis(*_wider(*_apart(low, high)), _BOTTOM, _TOP, True), 0
    usual_low, usual_high = values[len(values) // 20], values[-1 - len(values) // 20]
    reach = _FAR * (usual_high - usual_low) or math.inf
    near = [value for value in values if usual_low - reach <= value <= usual_high + reach]
    near += [value for value, _ in chart.marks if near[0] - reach <= value <= near[-1] + reach]
    axis = Axis(*_wider(*_apart(min(near), max(near))), _BOTTOM, _TOP)
    return axis, sum(not axis.low <= y <= axis.high for one in drawn for y in one.y)


def _apart(low: float, high: float) -> tuple[float, float]:
    """The same range, opened where it is empty."""
    gap = 0.0 if high > low else 0.5 * abs(low) or 0.5
    return low - gap, high + gap


def _wider(low: float, high: float) -> tuple[float, float]:
    return low - _MARGIN * (high - low), high + _MARGIN * (high - low)


def _scales(x_axis: Axis, y_axis: Axis) -> str:
    """Lines and labels of both axes."""
    parts = []
    for value in y_axis.ticks():
        y = y_axis.pixel(value)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 5}" y="{y + 3.5:.1f}" text-anchor="end">{short_number(value)}</text>')
    for value in x_axis.ticks():
        x = x_axis.pixel(value)
        anchor = "end" if x > _RIGHT - 12 else "middle"
        parts.append(f'<text x="{x:.1f}" y="{_BOTTOM + 15}" text-anchor="{anchor}">{short_number(value)}</text>')
    return "".join(parts)


def _rules(chart: Chart, x_axis: Axis, y_axis: Axis) -> Iterator[str]:
    """The chart's own lines: values to reach, moments to look at."""
    for value, label in chart.marks:
        y = y_axis.pixel(value)
        if not _TOP <= y <= _BOTTOM:
            continue
        yield f'<line class="mark" x1="{_LEFT}" x2="{_RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{_LEFT + 4}" y="{y + (12 if y < _TOP + 14 else -4):.1f}">{escape(label)}</text>'
    for moment in chart.moments:
        x = x_axis.pixel(moment)
        yield f'<line class="moment" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_BOTTOM}"/>'


def _curves(chart: Chart, drawn: Sequence[Series], x_axis: Axis, y_axis: Axis) -> Iterator[str]:
    for place, one in enumerate(drawn):
        if not one.x:
            continue
        colour = f"s{place % _NUM_COLOURS}"

        def path(values: Sequence[float], one: Series = one) -> list[str]:
            return [f"{x_axis.pixel(x):.1f},{y_axis.pixel(y):.1f}" for x, y in zip(one.x, values, strict=True)]

        if one.low:
            edge = " ".join((*path(one.high), *reversed(path(one.low))))
            yield f'<polygon class="{"area" if chart.is_stacked else "band"} {colour}" points="{edge}"/>'
        if not chart.is_stacked:
            yield f'<polyline class="{colour}" points="{" ".join(path(one.y))}"/>'
        if one.has_dots or len(one.x) == 1:
            dots = (point.split(",") for point in path(one.y))
            yield "".join(f'<circle class="{colour}" cx="{x}" cy="{y}" r="2.5"/>' for x, y in dots)


def _key(place: int, series: Series) -> str:
    last = f"<b>{number(series.y[-1])}</b>" if series.y else ""
    return f'<span class="s{place % _NUM_COLOURS}"><i></i>{escape(series.label)} {last}</span>'


def _points_json(x_axis: Axis, series: Iterator[Series]) -> str:
    points = [[[float(f"{value:.7g}") for value in column] for column in (one.x, one.y)] for one in series]
    return json.dumps({"axis": x_axis[:4], "series": points}, separators=(",", ":"))
