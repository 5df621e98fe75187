"""The page of one played episode: its video and its curves over steps, in one file that opens offline.

Shapes: T steps of the episode, D observation size, A action size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.actions.action import Action
from ddp_ppo.envs.columns import Interface
from ddp_ppo.evaluation.trajectory import Deviation, Trajectory
from ddp_ppo.protocols import Column
from ddp_ppo.report.charts import Chart, Series
from ddp_ppo.report.page import charts_html, heading, media, page

_MOST_COLUMNS = 64  # that are drawn; in large robots contact forces come after them
_MOST_BYTES = 2_000_000  # of a video that is a part of the page
_MOST_STEPS = 200  # in which every swing of a joint can be seen


def episode_page(
    name: str,
    one: Trajectory,
    interface: Interface,
    action: Action,
    *,
    deviation: Deviation | None,
    film: Path | None,
    notes: Sequence[str],
) -> str:
    """The HTML document.

    Args:
        name: of the policy.
        action: the action space.
        deviation: of a replay from its recording.
        film: a video in the page's folder.
        notes: lines of text.
    """
    title = f"{name} in {one.env_id}, seed {one.seed}"
    parts = [f"<h1>{escape(title)}</h1><p>Return {one.episode_return:.2f} in {one.length} steps, {one.end}.</p>"]
    parts += [f'<p class="soft">{escape(note)}</p>' for note in notes]
    if film is not None:
        parts.append(media(film, film.name if film.stat().st_size > _MOST_BYTES else ""))
    if deviation is not None:
        parts += [heading("Replay against its recording", deviation.words), charts_html(_deviation_charts(deviation))]
    parts += [heading("Reward"), charts_html(_reward_charts(one))]
    first = max(0, one.length - _MOST_STEPS)
    note = f"The last {_MOST_STEPS} of {one.length:,} steps; the trajectory's file has all." if first else ""
    parts += [heading("Actions", note), charts_html(_action_charts(one, action, interface.action, first))]
    shown = interface.obs[:_MOST_COLUMNS]
    if shown != interface.obs:
        note = f"The first {len(shown)} of {len(interface.obs)} columns. {note}"
    parts += [heading("Observations", note), charts_html(_obs_charts(one, shown, first))]
    return page(title, parts)


def _deviation_charts(found: Deviation) -> Iterator[Chart]:
    yield _chart("Observation: largest deviation of a column", {"standard deviations": found.obs}, first_step=0)
    yield _chart("Replayed minus recorded", {"reward": found.reward, "sum so far": found.total})


def _reward_charts(one: Trajectory) -> Iterator[Chart]:
    rewards = {"reward": one.reward, **one.terms}
    yield _chart("Reward of a step", rewards)
    yield _chart("Sum so far", {name: np.nancumsum(values) for name, values in rewards.items()})


def _action_charts(one: Trajectory, action: Action, columns: Sequence[Column], first: int) -> Iterator[Chart]:
    """What was done after `first` steps; where actions were given, also what the policy would have done."""
    names, units = ([getattr(column, field) for column in columns] for field in ("name", "unit"))
    is_replay = bool((one.act != one.policy_act).any())
    wanted = action.series(one.policy_act[first:], names, units)
    for series, other in zip(action.series(one.act[first:], names, units), wanted, strict=True):
        curves = {series.unit: series.values} | ({"the policy's": other.values} if is_replay else {})
        yield _chart(series.title, curves, first_step=first + 1, note=series.note)


def _obs_charts(one: Trajectory, columns: Sequence[Column], first: int) -> Iterator[Chart]:
    for i, column in enumerate(columns):
        curves = {column.unit or "value": one.obs[first:, i]}
        yield _chart(column.name, curves, first_step=first, note=column.frame)


def _chart(title: str, curves: Mapping[str, NDArray[Any]], *, first_step: int = 1, note: str = "") -> Chart:
    """Curves over steps, 0 being the reset; what is not finite is left out."""
    series = []
    for name, values in curves.items():
        kept = np.flatnonzero(np.isfinite(values))
        series.append(Series(name, (kept + first_step).tolist(), values[kept].tolist()))
    return Chart(title, series, x_name="steps", note=note, x_start=max(0, first_step - 1))
