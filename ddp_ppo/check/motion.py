"""What an environment does: its first observation, under no action, under each action alone.

What is merely unusual is a note; a fault is what no task can mean, such as an action that changes nothing.

Shapes: T steps, K environments, D observation size, A action size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.check.episodes import episode_lengths
from ddp_ppo.check.trial import Recording, Report, Trial, record, repeat, reset, spread
from ddp_ppo.envs.columns import Column
from ddp_ppo.protocols import BatchEnv, EnvSpec, FloatArray
from ddp_ppo.text import listed

_NUM_ENVS = 4
_NUM_STARTS = 8  # first observations to see the spread of
_QUIET_STEPS = 100
_PULSE_STEPS = 10
_SMALL = 0.1  # of an action's range
_MAX_CHOICES = 32
_SPECK = 1e-6  # a column that all actions together change by less has no action of its own
_NOTHING = "nothing"
_MAX_NAMED = 6


def check_first_observation(trial: Trial, report: Report) -> None:
    """Prints every column, its value, and its range over several seeds."""
    with trial.envs(1) as env:
        starts = np.array([reset(env, [seed])[0].copy() for seed in range(_NUM_STARTS)])
    report.tables["columns"] = [
        {
            "": index,
            "name": column.name,
            "value": f"{value:.4g}",
            f"range over {_NUM_STARTS} seeds": f"{low:.3g} .. {high:.3g}" if low < high else "always",
            "unit": column.unit,
            "source": column.source,
            "frame": column.frame,
        }
        for index, (column, value, low, high) in enumerate(
            zip(trial.interface.obs, starts[0], starts.min(0), starts.max(0), strict=True)
        )
    ]
    largest = float(np.abs(starts).max())
    report.figures["largest value"] = round(largest, 4)
    if largest * trial.plan.network.obs_scale > 100 and not trial.plan.config.normalize_obs:
        report.notes.append(f"a value of {largest:g} and normalize_obs: false: scale the observation, or normalise it")
    if len(np.unique(starts, axis=0)) == 1:
        report.notes.append("every seed starts with the same observation; only actions make environments differ")


def check_zero_actions(trial: Trial, report: Report) -> None:
    """Lets go of the robot: nothing but gravity and its start should move it."""
    num_envs = trial.at_most(_NUM_ENVS)
    with trial.envs(num_envs) as env:
        actions = repeat(trial.env.action.neutral(), _QUIET_STEPS, num_envs)
        path = record(env, reset(env, list(range(num_envs))), actions)
    report.figures["action"] = trial.env.action.neutral_name([column.name for column in trial.interface.action])
    report.figures["reward"] = spread(path.reward)
    lengths = episode_lengths(path.ended)
    report.figures["episodes"] = f"{len(lengths)} ended" + (f", after {spread(lengths)} steps" if lengths else "")
    moved = path.reached[-1, 0] - path.obs[0, 0]
    if not lengths and moved.any():
        report.figures["moved most"] = _moves(trial.interface.obs, moved, np.abs(moved))
    if lengths and max(lengths) == 1:
        report.notes.append("without an action every episode ends in its first step")
    if not path.reward.any():
        report.notes.append("without an action every reward is 0")


def check_small_actions(trial: Trial, report: Report) -> None:
    """A small action in one dimension after the other, from the same start, against no action."""
    env = trial.env
    num_columns = len(trial.interface.action)
    num_tried = min(num_columns, _MAX_CHOICES) if env.action.has_alternatives else num_columns
    with trial.envs(1) as batch:
        still = _pulse(batch, env.action.neutral())
        if not _is_same(still, _pulse(batch, env.action.neutral())):
            report.notes.append("two equal tries differ, so it is unknown what an action moves; see repeatability")
            return
        effects = [_effect(batch, still, env, index) for index in range(num_tried)]
    columns, shares = trial.interface.obs, _shares(np.array([effect.change for effect in effects]))
    report.tables["what each action moves"] = [
        {
            "action": action.name,
            "1 means": action.unit,
            "value": effect.value,
            "moves most of all actions": effect.word or _moves(columns, effect.change, share),
        }
        for action, effect, share in zip(trial.interface.action, effects, shares, strict=False)
    ]
    names = [action.name for action in trial.interface.action]
    idle = [names[i] for i, effect in enumerate(effects) if effect.word == _NOTHING]
    named = listed(idle, _MAX_NAMED)
    if idle and not env.action.has_alternatives:
        report.faults.append(f"no effect within {_PULSE_STEPS} steps, not even at its limit: {named}")
    elif idle and len(idle) == len(effects) - 1:
        report.faults.append(f"all choices do the same for {_PULSE_STEPS} steps: the action is ignored")
    elif idle:
        report.notes.append(f"the same as {names[0]} from the start: {named}")
    saturated = [f"{names[i]} {effect.value}" for i, effect in enumerate(effects) if effect.is_full]
    if saturated:
        named = listed(saturated, _MAX_NAMED)
        report.notes.append(f"a small action does what the largest does, most of the range is without effect: {named}")


def _shares(changes: FloatArray) -> FloatArray:
    """The share of each action in what all of them change of a column, [A, D]: high where it is the column's own."""
    sizes = np.abs(changes)
    total = sizes.sum(axis=0)
    return np.where(total > _SPECK, sizes / np.maximum(total, _SPECK), 0.0)


def _pulse(batch: BatchEnv, action: NDArray[Any]) -> Recording:
    return record(batch, reset(batch, [1]), repeat(action, _PULSE_STEPS, 1))


class _Effect(NamedTuple):
    """What an action of one dimension, or a choice, does against no action."""

    value: str
    change: FloatArray  # [D] of the observation
    word: str  # where the observation does not change
    is_full: bool = False  # whether a larger action of a Box does the same


def _effect(batch: BatchEnv, still: Recording, env: EnvSpec, index: int) -> _Effect:
    """The effect of a small action, or at its limits where a small one has none."""
    probes = env.action.probes(index, small=_SMALL)
    if not probes:
        unchanged = np.zeros(env.obs_size, np.float32)
        return _Effect(env.action.column_names()[index], unchanged, "(the others are compared with it)")
    (value, action), *limits = probes
    path = _pulse(batch, action)
    effect = _effect_of(still, path, value)
    if effect.word != _NOTHING:
        largest = limits[0][1] if limits else action
        is_full = not np.array_equal(largest, action) and _is_same(path, _pulse(batch, largest))
        return effect._replace(is_full=is_full)
    for value, action in limits:
        effect = _effect_of(still, _pulse(batch, action), value)
        if effect.word != _NOTHING:
            break
    return effect


def _effect_of(still: Recording, path: Recording, value: str) -> _Effect:
    """The change after as many steps as both episodes have, or where there is one at all."""
    num_steps = min(_first_end(still), _first_end(path))
    changes = path.reached[:num_steps, 0] - still.reached[:num_steps, 0]
    changed = np.flatnonzero(changes.any(axis=1))
    if len(changed):
        return _Effect(value, changes[changed[-1]], "")
    if _first_end(still) != _first_end(path):
        return _Effect(value, changes[-1], "the end of the episode only")
    is_same = np.array_equal(path.reward[:num_steps], still.reward[:num_steps])
    return _Effect(value, changes[-1], _NOTHING if is_same else "the reward only")


def _first_end(path: Recording) -> int:
    """Steps of the first episode, T where it has not ended."""
    ends = np.flatnonzero(path.ended[:, 0])
    return int(ends[0]) + 1 if len(ends) else len(path.ended)


def _is_same(a: Recording, b: Recording) -> bool:
    """Whether two recordings of one environment are equal up to the end of the first episode."""
    num_steps = _first_end(a)
    if num_steps != _first_end(b):
        return False
    return all(
        np.array_equal(getattr(a, name)[:num_steps], getattr(b, name)[:num_steps])
        for name in ("reached", "reward", "ended")
    )


def _moves(columns: Sequence[Column], change: FloatArray, rank: FloatArray) -> str:
    """Two columns that have changed, those of the highest rank first, and of equal ones the largest change."""
    order = np.lexsort((-np.abs(change), -rank.round(2)))[:2]
    units = [column.unit.removeprefix("1") for column in columns]
    return ", ".join(f"{columns[i].name} {change[i]:+.3g} {units[i]}".rstrip() for i in order if change[i])
