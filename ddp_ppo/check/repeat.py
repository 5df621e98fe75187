"""Whether an environment can be repeated, and whether several of it leave each other alone.

Shapes: T steps, K environments.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.check.trial import (
    Recording,
    Report,
    StageError,
    Trial,
    call,
    difference,
    random_actions,
    record,
    require_equal,
    reset,
)
from ddp_ppo.maths.seeding import seed_global_generators
from ddp_ppo.protocols import BatchEnv, BoolArray

_STEPS = 100
_SEEDS = [11, 12]
_OTHER_SEEDS = [21, 22]
_MANY_SEEDS = [11, 12, 13, 14]


def check_repeatability(trial: Trial, report: Report) -> None:
    """The same seeds and actions again: in the same environments, in new ones, and from a saved state."""
    actions = random_actions(trial.env, _STEPS, len(_SEEDS), seed=2)
    with trial.envs(len(_SEEDS)) as env:
        first = _run(env, _SEEDS, actions)
        again = _run(env, _SEEDS, actions)
        if require_equal(report, "same environments again", (first, again), "the same seeds and actions differ"):
            _check_saved_state(env, actions[: mid_episode(first.ended)], report, trial)
        else:
            report.faults[-1] += f": {_cause(env, actions)}"
    with trial.envs(len(_SEEDS)) as env:
        new = _run(env, _SEEDS, actions)
    complaint = (
        "new environments differ from used ones under the same seeds and actions: a reset leaves something behind"
    )
    if not report.faults:
        require_equal(report, "new environments", (first, new), complaint)


def _run(env: BatchEnv, seeds: list[int], actions: NDArray[Any]) -> Recording:
    return record(env, reset(env, seeds), actions)


def _cause(env: BatchEnv, actions: NDArray[Any]) -> str:
    """Why two runs with the same seeds differ."""
    as_it_is = [_run(env, _SEEDS, actions) for _ in range(2)]
    seeded = []
    for _ in range(2):
        seed_global_generators(1)
        seeded.append(_run(env, _SEEDS, actions))
    if difference(*as_it_is)[0] == 0:
        return "reset keeps something of the episode before"
    if difference(*seeded)[0] == 0:
        return "it draws from a global generator of NumPy or Python; draw from self.np_random"
    if not np.array_equal(seeded[0].obs[0], seeded[1].obs[0]):
        return "reset ignores its seed, or keeps something of the episode before"
    return "a step depends on more than state and action, or draws from a generator that reset does not seed"


def _check_saved_state(env: BatchEnv, leading: NDArray[Any], report: Report, trial: Trial) -> None:
    """Goes on from the state that a checkpoint would hold, once as it is and once restored in new environments.

    Args:
        leading: actions of the steps up to there.
    """
    before = _run(env, _SEEDS, leading)
    actions = random_actions(trial.env, _STEPS, len(_SEEDS), seed=3)
    with trial.envs(len(_SEEDS)) as other:
        reset(other, _OTHER_SEEDS)
        try:
            state = call("get_state", env.save)
            obs = None if state is None else call("set_state", other.restore, state)
        except StageError as error:  # methods of these names that are for something else
            obs = None
            report.notes.append(str(error))
        if obs is None:
            report.figures["saved state"] = "none"
            report.notes.append("its state cannot be saved (get_state, set_state): a resumed run starts new episodes")
            return
        restored = record(other, obs, actions)
    going_on = record(env, before.obs[-1], actions)
    complaint = "an environment that is restored goes on differently: get_state and set_state miss something"
    require_equal(report, "saved state", (going_on, restored), complaint)


def mid_episode(ended: BoolArray) -> int:
    """Steps after which all of K environments are as far from a start and an end as they ever are; ended is [T, K]."""
    steps = np.arange(1, len(ended))
    marks = [np.array([0, *np.flatnonzero(column) + 1, len(ended)]) for column in ended.T]
    distances = [np.abs(steps[:, None] - one).min(axis=1) for one in marks]
    return 1 + int(np.argmax(np.min(distances, axis=0)))


def check_independence(trial: Trial, report: Report) -> None:
    """Each of several environments must do what it does alone."""
    num_envs = len(_MANY_SEEDS)
    actions = random_actions(trial.env, _STEPS, num_envs, seed=4)
    with trial.envs(num_envs) as env:
        together = _run(env, _MANY_SEEDS, actions)
        is_array = trial.own_class is None and env.spec.backend != "gymnasium"
    alone = []
    for index, seed in enumerate(_MANY_SEEDS):
        with trial.envs(1) as env:
            alone.append(_run(env, [seed], actions[:, index : index + 1]))
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(one, name) for one in alone], axis=1)
        for name in ("obs", "reached", "reward", "terminated", "truncated")
    }
    joined = Recording(**arrays, terms={})
    complaint = f"an environment does something else among {num_envs} than alone: they share a generator or a state"
    require_equal(report, f"{num_envs} together and alone", (together, joined), complaint)
    _check_streams(together, report)
    if is_array:
        with trial.envs(num_envs, backend="gymnasium") as env:
            reference = _run(env, _MANY_SEEDS, actions)
        complaint = "the array backend differs from Gymnasium's own class: use env_backend: gymnasium"
        require_equal(report, "arrays and Gymnasium's class", (together, reference), complaint)


def _check_streams(together: Recording, report: Report) -> None:
    """Different seeds should start differently, unless all starts of the task are one."""
    starts = together.obs[0]
    later = together.obs[1:][together.ended]
    if len(np.unique(starts, axis=0)) == 1 and len(np.unique(later, axis=0)) > 1:
        report.faults.append("different seeds give the same start although starts differ: reset ignores its seed")
