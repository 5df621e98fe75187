"""How episodes start and end, judged from what random actions have led to.

What no task can mean is a fault; what is merely unusual is a note, and silence where chance would explain it.

Shapes: T steps, K environments, D observation size, E ends of episodes, N steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.check.trial import Recording
from ddp_ppo.protocols import BoolArray, EnvSpec, FloatArray

LONGEST = 2000  # steps without an end after which there is none
_CHANCE = 1e-6  # below it a coincidence is none
_FEW_ENDS = 4
_MAX_ENDS, _MAX_KNOWN = 64, 2000  # rows to compare rewards of


class Findings(NamedTuple):
    """What is wrong, and what is worth a look."""

    faults: list[str]
    notes: list[str]


NOTHING = Findings([], [])


def episode_lengths(ended: NDArray[np.bool_]) -> list[int]:
    """Steps of every episode that ended in [T, K], those of the first environment first."""
    return [int(length) for column in ended.T for length in np.diff(np.flatnonzero(column), prepend=-1)]


def end_findings(path: Recording, env: EnvSpec) -> Findings:
    """Whether episodes end when they should."""
    num_steps, num_envs = path.ended.shape
    lengths, limit = episode_lengths(path.ended), env.max_episode_steps
    if limit is not None and num_steps >= limit and not path.ended[:limit].any(axis=0).all():
        return Findings([f"max_episode_steps is {limit}, but an episode went on after {limit} steps"], [])
    if not lengths and limit is None:
        text = f"no episode ended within {num_steps} steps and there is no time limit: set max_episode_steps"
        return Findings([text], []) if num_steps >= LONGEST else Findings([], [text])
    firsts = [int(np.argmax(column)) + 1 for column in path.ended.T if column.any()]
    if len(lengths) > num_envs and max(lengths) == 1:
        return _one_step(limit)
    if len(lengths) > 2 * num_envs and min(firsts) > 1 and max(_later(path.ended)) == 1:
        return Findings(["after the first one every episode ends in its first step: reset leaves something behind"], [])
    return Findings([], [*_terminated_alike(path, lengths), *_truncated_early(path, lengths, limit)])


def _one_step(limit: int | None) -> Findings:
    """A bandit has no time limit; a limit of several steps says that episodes were meant to have them."""
    text = "every episode ends in its first step"
    if limit in (None, 1):
        return Findings([], [f"{text}: right for a bandit, else look at the start, and at what terminates"])
    return Findings([f"{text}, of max_episode_steps {limit}: look at the start, and at what terminates"], [])


def _later(ended: NDArray[np.bool_]) -> list[int]:
    """Lengths of all but each environment's first episode."""
    return [length for column in ended.T for length in episode_lengths(column[:, None])[1:]]


def _terminated_alike(path: Recording, lengths: list[int]) -> list[str]:
    is_same = len(lengths) > path.ended.shape[1] and len(set(lengths)) == 1
    if not is_same or not path.terminated.any() or path.truncated.any():
        return []
    return [f"every episode is terminated after {lengths[0]} steps: if that is a time limit, return truncated"]


def _truncated_early(path: Recording, lengths: list[int], limit: int | None) -> list[str]:
    """A time limit cuts all episodes after the same number of steps."""
    only_truncated = (path.truncated & ~path.terminated).T[path.ended.T]
    early = {length for length, is_cut in zip(lengths, only_truncated, strict=True) if is_cut and length != limit}
    if len(early) < 2:
        return []
    cut = f"episodes are truncated after {min(early)} .. {max(early)} steps, which is no time limit"
    return [f"{cut}: an end that the task brings is terminated"]


def start_findings(path: Recording, env: EnvSpec, *, is_own_class: bool) -> Findings:
    """Whether episodes start anew, each with an observation of its own, and end with their own last one."""
    faults, notes = _mixed_up(path) if is_own_class else NOTHING
    if _is_one_episode(path) and not faults:
        text = "every episode of an environment starts as its first one did, although those of others differ"
        faults = [f"{text}: a reset without a seed must go on with its generator, not seed it again"]
    if not faults and not notes and _looks_restarted(path):
        text = "the last observation of every episode looks like a first one"
        notes = [*notes, f"{text}: does step reset the environment before it returns?"]
    if not env.image and _is_late(path):
        text = "the first step of an episode changes no column, whatever the action"
        notes = [*notes, f"{text}: does step return the observation from before it?"]
    if is_own_class and _is_rewarded_late(path):
        text = "rewards at time limits fit the first observation of the next episode, not the last of theirs"
        notes = [*notes, f"{text}: compute the reward before the reset"]
    return Findings(faults, notes)


def _following(path: Recording) -> FloatArray:
    """The observations [E, D] that follow ends."""
    following: FloatArray = path.obs[1:][path.ended]
    return following


def _mixed_up(path: Recording) -> Findings:
    """Of a vectorised class: whether what follows an end is the end itself."""
    last = path.reached[path.ended]
    if not len(last) or not np.array_equal(last, _following(path)):
        return NOTHING
    if len(np.unique(last, axis=0)) == 1:  # a task may end where it starts
        return Findings([], ["the last observation of every episode is the first one of the next"])
    text = "after every end obs and final_obs are the same: obs is a new episode's first observation"
    return Findings([f"{text}, final_obs the last one of the ended"], [])


def _is_one_episode(path: Recording) -> bool:
    """Whether all starts of an environment are equal, and those of different ones are not."""
    starts = path.obs[0]
    if not path.ended.any(axis=0).all() or len(starts) == 1 or len(np.unique(starts, axis=0)) < len(starts):
        return False
    wanted: BoolArray = np.broadcast_to(starts, path.reached.shape)[path.ended] == _following(path)
    return bool(wanted.all())


def _looks_restarted(path: Recording) -> bool:
    """Whether columns with one value at every start have it at every end as well, and hardly ever in between."""
    starts = np.concatenate([path.obs[0], _following(path)])
    columns = (starts == starts[0]).all(axis=0) & (np.ptp(path.reached, axis=(0, 1)) > 0)
    num_ends = int(path.ended.sum())
    if not columns.any() or num_ends < _FEW_ENDS or path.ended.all():
        return False
    as_started = (path.reached[..., columns] == starts[0, columns]).all(axis=-1)  # [T, K]
    return bool(as_started[path.ended].all() and as_started[~path.ended].mean() ** num_ends < _CHANCE)


def _is_late(path: Recording) -> bool:
    """Whether all first steps of episodes that go on change nothing, and later ones change something too often."""
    is_first = np.concatenate([np.ones_like(path.ended[:1]), path.ended[:-1]])
    has_changed = (path.reached != path.obs[:-1]).any(axis=-1)  # [T, K]
    firsts, later = has_changed[is_first & ~path.ended], has_changed[~is_first]
    if len(firsts) < _FEW_ENDS or firsts.any() or not len(later):
        return False
    return bool((1 - later.mean()) ** len(firsts) < _CHANCE)


def _is_rewarded_late(path: Recording) -> bool:
    """Whether the reward at time limits is what is paid where the next episode starts, far from that at their own end.

    What is paid at an observation is read from the step that led nearest to it.
    """
    cut, ordinary = path.truncated & ~path.terminated, ~path.ended
    if cut.sum() < _FEW_ENDS or ordinary.sum() < _MAX_ENDS:
        return False
    known, paid = path.reached[ordinary][-_MAX_KNOWN:], path.reward[ordinary][-_MAX_KNOWN:]
    reward = path.reward[cut][:_MAX_ENDS]
    last, following = path.reached[cut][:_MAX_ENDS], path.obs[1:][cut][:_MAX_ENDS]
    error_last, error_following = (
        float(np.median(np.abs(reward - paid[_nearest(obs, known)]))) for obs in (last, following)
    )
    return error_last > 0.1 * float(paid.std()) and error_following < 0.2 * error_last


def _nearest(obs: FloatArray, known: FloatArray) -> NDArray[np.int64]:
    """The row of known [N, D] nearest to each of obs [E, D], every column by its own spread."""
    spread = np.maximum(known.std(axis=0), 1e-6)
    return np.array([np.square((known - one) / spread).sum(axis=1).argmin() for one in obs])
