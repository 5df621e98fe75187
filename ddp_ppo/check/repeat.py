"""Whether an environment can be repeated, and whether several of it leave each other alone.

Shapes: T steps, K environments.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.check.trial import (
    Recording,
    Report,
    SkipStage,
    StageError,
    Trial,
    call,
    difference,
    random_actions,
    record,
    require_equal,
    reset,
)
from ddp_ppo.envs.build import closed_in_the_end, make_batch_env
from ddp_ppo.maths.seeding import seed_global_generators
from ddp_ppo.processes.apart import ApartError, run_apart
from ddp_ppo.protocols import BatchEnv, BoolArray

_STEPS = 100
_SEEDS = [11, 12]
_OTHER_SEEDS = [21, 22]
_OTHER_HASH_SEED = "8191"  # nobody sets it
_MANY_SEEDS = [11, 12, 13, 14]


def check_repeatability(trial: Trial, report: Report) -> None:
    """The same seeds and actions again: in the same environments, in new ones, and from a saved state."""
    seeds = _SEEDS[: trial.at_most(len(_SEEDS))]
    actions = random_actions(trial.env, _STEPS, len(seeds), seed=2)
    with trial.envs(len(seeds)) as env:
        first = _run(env, seeds, actions)
        again = _run(env, seeds, actions)
        if require_equal(report, "same environments again", (first, again), "the same seeds and actions differ"):
            _check_saved_state(env, actions[: mid_episode(first.ended)], report, trial)
        else:
            report.faults[-1] += f": {_cause(env, seeds, actions)}"
    with trial.envs(len(seeds)) as env:
        new = _run(env, seeds, actions)
    complaint = (
        "new environments differ from used ones under the same seeds and actions: a reset leaves something behind"
    )
    if not report.faults:
        require_equal(report, "new environments", (first, new), complaint)
    if not report.faults:
        _check_other_process(first, seeds, actions, report, trial)


def _check_other_process(
    first: Recording, seeds: list[int], actions: NDArray[Any], report: Report, trial: Trial
) -> None:
    """The same in a process with another hash seed, in which Python orders sets in another way."""
    arguments = trial.plan.config.env_arguments | {"env_id": trial.env_id}
    variables = {"PYTHONHASHSEED": _OTHER_HASH_SEED}
    seconds = trial.plan.config.actor_timeout_seconds
    try:
        other = Recording(*run_apart(_recorded, arguments, seeds, actions, seconds=seconds, variables=variables))
    except ApartError as error:
        report.faults.append(f"in another process: {error}")
        return
    complaint = "another process differs under the same seeds and actions: does the order of a set matter, or a hash?"
    require_equal(report, "another process", (first, other), complaint)


def _recorded(arguments: dict[str, Any], seeds: list[int], actions: NDArray[Any]) -> tuple[Any, ...]:
    with closed_in_the_end(make_batch_env(num_envs=len(seeds), **arguments), str(arguments["env_id"])) as env:
        return tuple(_run(env, seeds, actions))


def _run(env: BatchEnv, seeds: list[int], actions: NDArray[Any]) -> Recording:
    return record(env, reset(env, seeds), actions)


def _cause(env: BatchEnv, seeds: list[int], actions: NDArray[Any]) -> str:
    """Why two runs with the same seeds differ."""
    as_it_is = [_run(env, seeds, actions) for _ in range(2)]
    seeded = []
    for _ in range(2):
        seed_global_generators(1)
        seeded.append(_run(env, seeds, actions))
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
    num_envs = env.num_envs
    before = _run(env, _SEEDS[:num_envs], leading)
    actions = random_actions(trial.env, _STEPS, num_envs, seed=3)
    has_room = trial.at_most(2 * num_envs) == 2 * num_envs
    with trial.envs(num_envs) if has_room else nullcontext(env) as other:
        try:
            state = call("get_state", env.save)
            going_on = record(env, before.obs[-1], actions)
            reset(other, _OTHER_SEEDS[:num_envs])
            obs = None if state is None else call("set_state", other.restore, state)
        except StageError as error:  # methods of these names that are for something else
            obs = None
            report.notes.append(str(error))
        if obs is None:
            report.figures["saved state"] = "none"
            report.notes.append("its state cannot be saved (get_state, set_state): a resumed run starts new episodes")
            return
        restored = record(other, obs, actions)
    complaint = "an environment that is restored continues differently: get_state and set_state miss something"
    require_equal(report, "saved state", (going_on, restored), complaint)


def mid_episode(ended: BoolArray) -> int:
    """Steps after which all of K environments are as far from a start and an end as they ever are; ended is [T, K]."""
    steps = np.arange(1, len(ended))
    marks = [np.array([0, *np.flatnonzero(column) + 1, len(ended)]) for column in ended.T]
    distances = [np.abs(steps[:, None] - one).min(axis=1) for one in marks]
    return 1 + int(np.argmax(np.min(distances, axis=0)))


def check_independence(trial: Trial, report: Report) -> None:
    """Each of several environments must do what it does alone."""
    num_envs = trial.at_most(len(_MANY_SEEDS))
    if num_envs == 1:
        raise SkipStage("only one instance can be open at once")
    seeds = _MANY_SEEDS[:num_envs]
    actions = random_actions(trial.env, _STEPS, num_envs, seed=4)
    with trial.envs(num_envs) as env:
        together = _run(env, seeds, actions)
        is_array = trial.own_class is None and env.spec.backend != "gymnasium"
    alone = []
    for index, seed in enumerate(seeds):
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
            reference = _run(env, seeds, actions)
        complaint = "the array backend differs from Gymnasium's own class: use env_backend: gymnasium"
        require_equal(report, "arrays and Gymnasium's class", (together, reference), complaint)


def _check_streams(together: Recording, report: Report) -> None:
    """Different seeds should start differently, unless all starts of the task are one."""
    starts = together.obs[0]
    later = together.obs[1:][together.ended]
    if len(np.unique(starts, axis=0)) == 1 and len(np.unique(later, axis=0)) > 1:
        report.faults.append("different seeds give the same start although starts differ: reset ignores its seed")
