"""What an environment does: its first observation, under no action, under each action alone, under random ones.

What is merely unusual is a note; a fault is what no task can mean, such as an action that changes nothing.

Shapes: T steps, K environments, D observation size, A action size.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.check_trial import Report, Trajectory, Trial, bounds, no_action, random_actions, record, repeat, reset
from ddp_ppo.env_columns import Column
from ddp_ppo.protocols import BatchEnv, EnvSpec, FloatArray

_NUM_ENVS = 4
_NUM_STARTS = 8  # first observations to see the spread of
_QUIET_STEPS = 100
_PULSE_STEPS = 10
_SMALL = 0.1  # of an action's range
_MAX_CHOICES = 32
_SPECK = 1e-6  # a column that all actions together change by less has no action of its own
_NOTHING = "nothing"
_CHUNK = 100
_RANDOM_STEPS = 2000  # of each environment: twice MuJoCo's time limits
_SECONDS = 3.0
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
    with trial.envs(_NUM_ENVS) as env:
        actions = repeat(no_action(trial.env), _QUIET_STEPS, _NUM_ENVS)
        path = record(env, reset(env, list(range(_NUM_ENVS))), actions)
    report.figures["action"] = "0" if trial.env.action_kind == "box" else trial.interface.action[0].name
    report.figures |= _reward_figures(path)
    lengths = episode_lengths(path.ended)
    report.figures["episodes"] = f"{len(lengths)} ended" + (f", after {_spread(lengths)} steps" if lengths else "")
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
    num_tried = env.action_size if env.action_kind == "box" else min(env.action_size, _MAX_CHOICES)
    with trial.envs(1) as batch:
        still = _pulse(batch, no_action(env))
        if not _is_same(still, _pulse(batch, no_action(env))):
            report.notes.append(
                "two equal tries differ, so that what an action moves cannot be told; see repeatability"
            )
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
    idle = [trial.interface.action[i].name for i, effect in enumerate(effects) if effect.word == _NOTHING]
    listed = ", ".join(idle[:_MAX_NAMED])
    if env.action_kind == "box" and idle:
        report.faults.append(f"no effect within {_PULSE_STEPS} steps, not even at its limit: {listed}")
    elif idle and len(idle) == len(effects) - 1:
        report.faults.append(f"all choices do the same for {_PULSE_STEPS} steps: the action is ignored")
    elif idle:
        report.notes.append(f"the same as {trial.interface.action[0].name} from the start: {listed}")


def _shares(changes: FloatArray) -> FloatArray:
    """The share of each action in what all of them change of a column, [A, D]: high where it is the column's own."""
    sizes = np.abs(changes)
    total = sizes.sum(axis=0)
    return np.where(total > _SPECK, sizes / np.maximum(total, _SPECK), 0.0)


def _pulse(batch: BatchEnv, action: NDArray[Any]) -> Trajectory:
    return record(batch, reset(batch, [1]), repeat(action, _PULSE_STEPS, 1))


class _Effect(NamedTuple):
    """What an action of one dimension, or a choice, does against no action."""

    value: str
    change: FloatArray  # [D] of the observation
    word: str  # where the observation does not change


def _effect(batch: BatchEnv, still: Trajectory, env: EnvSpec, index: int) -> _Effect:
    """The effect of a small action, or at its limits where a small one has none."""
    if env.action_kind == "discrete" and index == 0:
        return _Effect("choice 0", np.zeros(env.obs_size, np.float32), "(the others are compared with it)")
    for value, action in _actions_of(env, index):
        effect = _effect_of(still, _pulse(batch, action), value)
        if effect.word != _NOTHING:
            break
    return effect


def _actions_of(env: EnvSpec, index: int) -> list[tuple[str, NDArray[Any]]]:
    if env.action_kind == "discrete":
        return [(f"choice {index}", np.array(index))]
    low, high = bounds(env)
    still = no_action(env)
    actions = []
    for target in (still[index] + _SMALL * (high[index] - low[index]), high[index], low[index]):
        action = still.copy()
        action[index] = min(target, high[index])
        actions.append((f"{action[index]:.3g}", action))
    return actions


def _effect_of(still: Trajectory, path: Trajectory, value: str) -> _Effect:
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


def _first_end(path: Trajectory) -> int:
    """Steps of the first episode, T where it has not ended."""
    ends = np.flatnonzero(path.ended[:, 0])
    return int(ends[0]) + 1 if len(ends) else len(path.ended)


def _is_same(a: Trajectory, b: Trajectory) -> bool:
    """Whether two trajectories of one environment are equal up to the end of the first episode."""
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


def check_random_actions(trial: Trial, report: Report) -> None:
    """Random actions until episodes have ended, or had the time to."""
    path = _random_path(trial)
    lengths = episode_lengths(path.ended)
    report.figures["steps"] = f"{len(path.reward)} of {_NUM_ENVS} environments"
    report.figures["episodes"] = f"{len(lengths)} ended" + (f", after {_spread(lengths)} steps" if lengths else "")
    if lengths:
        share = path.terminated.sum() / len(lengths)
        report.figures["ended by"] = f"the task {100 * share:.0f} %, a limit {100 - 100 * share:.0f} %"
    report.figures |= _reward_figures(path)
    for name, values in path.terms.items():
        report.figures[name] = _spread(values)
    for result in (end_findings(path, trial.env), _reward_findings(path, trial), _column_findings(path, trial)):
        report.faults += result.faults
        report.notes += result.notes


def _random_path(trial: Trial) -> Trajectory:
    limit = trial.env.max_episode_steps or _RANDOM_STEPS
    num_steps = min(_RANDOM_STEPS, limit + _CHUNK)
    deadline = time.monotonic() + _SECONDS
    actions = random_actions(trial.env, num_steps, _NUM_ENVS)
    parts: list[Trajectory] = []
    with trial.envs(_NUM_ENVS) as env:
        obs = reset(env, list(range(_NUM_ENVS)))
        for start in range(0, num_steps, _CHUNK):
            parts.append(record(env, obs, actions[start : start + _CHUNK]))
            obs = parts[-1].obs[-1]
            if time.monotonic() > deadline:
                break
    return Trajectory.joined(parts)


class Findings(NamedTuple):
    """What is wrong, and what is worth a look."""

    faults: list[str]
    notes: list[str]


def episode_lengths(ended: NDArray[np.bool_]) -> list[int]:
    """Steps of every episode that ended in [T, K], those of the first environment first."""
    return [int(length) for column in ended.T for length in np.diff(np.flatnonzero(column), prepend=-1)]


def end_findings(path: Trajectory, env: EnvSpec) -> Findings:
    """Whether episodes end when they should."""
    num_steps, num_envs = path.ended.shape
    lengths, limit = episode_lengths(path.ended), env.max_episode_steps
    if limit is not None and num_steps >= limit and not path.ended[:limit].any(axis=0).all():
        return Findings([f"max_episode_steps is {limit}, but an episode went on after {limit} steps"], [])
    if not lengths and limit is None:
        text = f"no episode ended within {num_steps} steps and there is no time limit: set max_episode_steps"
        return Findings([text], []) if num_steps >= _RANDOM_STEPS else Findings([], [text])
    firsts = [int(np.argmax(column)) + 1 for column in path.ended.T if column.any()]
    if len(lengths) > num_envs and max(lengths) == 1:
        return Findings(["every episode ends in its first step: look at the start, and at what terminates"], [])
    if len(lengths) > 2 * num_envs and min(firsts) > 1 and max(_later(path.ended)) == 1:
        return Findings(["after the first one every episode ends in its first step: reset leaves something behind"], [])
    is_same = len(lengths) > num_envs and len(set(lengths)) == 1
    if is_same and path.terminated.any() and not path.truncated.any():
        note = f"every episode is terminated after {lengths[0]} steps: if that is a time limit, return truncated"
        return Findings([], [note])
    return Findings([], [])


def _later(ended: NDArray[np.bool_]) -> list[int]:
    """Lengths of all but each environment's first episode."""
    return [length for column in ended.T for length in episode_lengths(column[:, None])[1:]]


def _reward_findings(path: Trajectory, trial: Trial) -> Findings:
    if not path.reward.any():
        return Findings([f"every reward of {path.reward.size} random steps is 0: there is nothing to learn from"], [])
    largest = float(np.abs(path.reward).max())
    if largest > 100 and not trial.plan.config.normalize_reward:
        return Findings([], [f"rewards up to {largest:g} and normalize_reward: false: scale them, or normalise"])
    return Findings([], [])


def _column_findings(path: Trajectory, trial: Trial) -> Findings:
    values = np.concatenate([path.obs, path.reached]).reshape(-1, trial.env.obs_size)
    fixed = np.flatnonzero(values.min(0) == values.max(0))
    if len(fixed) == trial.env.obs_size:
        return Findings(["the observation never changes"], [])
    if not len(fixed):
        return Findings([], [])
    names = ", ".join(f"{trial.interface.obs[i].name} = {values[0, i]:g}" for i in fixed[:_MAX_NAMED])
    more = f" and {len(fixed) - _MAX_NAMED} more" if len(fixed) > _MAX_NAMED else ""
    return Findings([], [f"{len(fixed)} of {trial.env.obs_size} columns never change: {names}{more}"])


def _reward_figures(path: Trajectory) -> dict[str, Any]:
    return {"reward": _spread(path.reward)}


def _spread(values: Any) -> str:
    """Smallest, mean and largest."""
    array = np.asarray(values)
    low, mean, high = array.min(), array.mean(), array.max()
    return f"{low:.4g}" if low == high else f"{low:.4g} .. {high:.4g} (mean {mean:.4g})"
