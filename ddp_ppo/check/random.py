"""What random actions lead to: how episodes end and start, what is paid, which columns tell nothing.

What is merely unusual is a note; a fault is what no task can mean, such as a reward that is always 0.

Shapes: T steps, K environments, D observation size.
"""

from __future__ import annotations

import time

import numpy as np

from ddp_ppo.check.episodes import LONGEST, NOTHING, Findings, end_findings, episode_lengths, start_findings
from ddp_ppo.check.trial import Recording, Report, Trial, random_actions, record, reset, spread
from ddp_ppo.envs.columns import Column
from ddp_ppo.text import listed

_NUM_ENVS = 4
_CHUNK = 100
_FEWEST_STEPS = 1000  # of each environment, so that short episodes are many
_SECONDS = 3.0
_MAX_NAMED = 6
_LARGE_REWARD, _SMALL_REWARD = 100.0, 0.01
_OUTLIER = 1000.0  # a reward so many times the usual one hides it, whatever divides them
_COARSE = 32  # values that float32 can tell apart, below which a column's changes are lost
_FAR = 1000.0  # from 0; nearer ones that hardly move may simply lie still


def check_random_actions(trial: Trial, report: Report) -> None:
    """Random actions until episodes have ended, or had the time to."""
    path = _random_path(trial)
    lengths = episode_lengths(path.ended)
    report.figures["steps"] = f"{len(path.reward)} of {path.reward.shape[1]} environments"
    report.figures["episodes"] = f"{len(lengths)} ended" + (f", after {spread(lengths)} steps" if lengths else "")
    if lengths:
        share = path.terminated.sum() / len(lengths)
        report.figures["ended by"] = f"the task {100 * share:.0f} %, a limit {100 - 100 * share:.0f} %"
    report.figures["reward"] = spread(path.reward)
    for name, values in path.terms.items():
        report.figures[name] = spread(values)
    for result in (
        end_findings(path, trial.env),
        start_findings(path, trial.env, is_own_class=trial.own_class is not None),
        reward_findings(path, is_normalized=trial.plan.config.normalize_reward),
        column_findings(path, trial.interface.obs),
    ):
        report.faults += result.faults
        report.notes += result.notes


def _random_path(trial: Trial) -> Recording:
    limit = trial.env.max_episode_steps or LONGEST
    num_steps = min(LONGEST, max(_FEWEST_STEPS, limit + _CHUNK))
    deadline = time.monotonic() + _SECONDS
    num_envs = trial.at_most(_NUM_ENVS)
    actions = random_actions(trial.env, num_steps, num_envs)
    parts: list[Recording] = []
    with trial.envs(num_envs) as env:
        obs = reset(env, list(range(num_envs)))
        for start in range(0, num_steps, _CHUNK):
            parts.append(record(env, obs, actions[start : start + _CHUNK]))
            obs = parts[-1].obs[-1]
            if time.monotonic() > deadline:
                break
    return Recording.joined(parts)


def reward_findings(path: Recording, *, is_normalized: bool) -> Findings:
    """Whether there is something to learn from, in a size to learn it from.

    Args:
        is_normalized: whether rewards are divided by the spread of returns.
    """
    if not path.reward.any():
        return Findings([f"every reward of {path.reward.size} random steps is 0: there is nothing to learn from"], [])
    return Findings([], [*_same_rewards(path), *_size_of_rewards(path, is_normalized), *_other_sums(path)])


def _same_rewards(path: Recording) -> list[str]:
    """A reward of less than 0 may be the price of each step on the way to an end that random actions do not find."""
    lowest, highest = float(path.reward.min()), float(path.reward.max())
    if not 0 < lowest == highest or path.terminated.any():
        return []
    return [f"every reward is {lowest:g} and nothing terminates an episode: no action is better than another"]


def _size_of_rewards(path: Recording, is_normalized: bool) -> list[str]:
    sizes = np.abs(path.reward)
    largest, usual = float(sizes.max()), float(np.median(sizes[sizes > 0]))
    if largest > _OUTLIER * max(1.0, usual):
        text = f"a reward of size {largest:g} among usual ones of {usual:.3g}"
        return [f"{text} hides them, normalised or not: let no single reward be so large"]
    if largest > _LARGE_REWARD and not is_normalized:
        return [f"rewards up to {largest:g} and normalize_reward: false: scale them, or normalise"]
    if largest < _SMALL_REWARD and not is_normalized:
        return [
            f"no reward above {largest:g} and normalize_reward: false: the critic hardly moves; scale, or normalise"
        ]
    return []


def _other_sums(path: Recording) -> list[str]:
    """One term alone, or a difference that stays, says that the others are not named."""
    terms = [values for name, values in path.terms.items() if name.startswith("reward_")]
    if len(terms) < 2:
        return []
    rest = path.reward - sum(terms)
    if np.ptp(rest) <= 1e-3 * max(1.0, float(np.abs(path.reward).max())):
        return []
    return [f"the {len(terms)} terms reward_* do not add up to the reward: up to {np.abs(rest).max():.3g} is missing"]


def column_findings(path: Recording, columns: tuple[Column, ...]) -> Findings:
    """Columns that never change, or by less than their numbers can hold."""
    values = np.concatenate([path.obs, path.reached]).reshape(-1, len(columns))
    lowest, highest = values.min(axis=0), values.max(axis=0)
    fixed = np.flatnonzero(lowest == highest)
    if len(fixed) == len(columns):
        return Findings([], ["the observation never changes: right for a bandit, else nothing tells states apart"])
    notes = []
    if len(fixed):
        named = listed([f"{columns[i].name} = {values[0, i]:g}" for i in fixed], _MAX_NAMED)
        notes.append(f"{len(fixed)} of {len(columns)} columns never change: {named}")
    largest = np.abs(values).max(axis=0)
    is_coarse = (lowest < highest) & (largest > _FAR) & (highest - lowest < _COARSE * np.spacing(largest))
    if is_coarse.any():
        ranges = [f"{columns[i].name} {lowest[i]:.9g} .. {highest[i]:.9g}" for i in np.flatnonzero(is_coarse)]
        named = listed(ranges, _MAX_NAMED)
        notes.append(f"float32 can hardly hold the changes of a column so far from 0, subtract its mean: {named}")
    return Findings([], notes) if notes else NOTHING
