"""Whether an environment keeps to its interface: types, shapes and dtypes, spaces, limits of actions, its own arrays.

A Gymnasium environment is stepped as it is, before it is made an array; of a vectorised class of one's own the arrays
are checked against `protocols.BatchEnv`.

Shapes: K environments, D observation size, A action size.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ddp_ppo.check.trial import Report, StageError, Trial, call, random_actions
from ddp_ppo.envs.probe import normalizers_among
from ddp_ppo.envs.spaces import NUMBERS, action_decoder, one_line
from ddp_ppo.protocols import EnvSpec
from ddp_ppo.text import and_more

_STEPS = 1000
_SECONDS = 1.0
_NUM_ENVS = 3
_MAX_FAULTS = 3  # of the actions' limits


def check_interface(trial: Trial, report: Report) -> None:
    """Steps one environment with random actions and looks at all that it returns."""
    env = trial.env
    report.figures |= {"backend": trial.own_class or env.backend, "observation size": env.obs_size}
    report.figures["action"] = env.action.describe()
    report.figures["time limit"] = env.max_episode_steps or "none"
    report.faults += bounds_faults(env)
    if trial.env_id != env.env_id:
        report.notes.append(f"of {env.env_id} only {trial.env_id} is looked at, training aside; check the others alone")
    if trial.own_class is None:
        with trial.gymnasium_env() as one:
            _check_gymnasium(one, trial, report)
    else:
        with trial.envs(trial.at_most(_NUM_ENVS)) as batch:
            _check_batch(batch, trial, report)


def bounds_faults(env: EnvSpec) -> list[str]:
    """What is wrong with the limits of Box actions; StageError where no action lies within them."""
    faults = []
    for index, (low, high) in enumerate(zip(env.action.low.tolist(), env.action.high.tolist(), strict=True)):
        if not low <= high:
            raise StageError(f"limits of action {index} are swapped: low {low:g}, high {high:g}")
        if low == high:
            faults.append(f"limits of action {index} are both {low:g}")
        elif not np.isfinite((low, high)).all():
            faults.append(f"limits of action {index} are not finite: low {low:g}, high {high:g}; nothing bounds it")
    more = and_more(faults, _MAX_FAULTS)
    return faults[:_MAX_FAULTS] + ([f"{more} actions likewise"] if more else [])


def _check_gymnasium(env: Any, trial: Trial, report: Report) -> None:
    """The first reset or step with faults ends it; their consequences would only repeat them."""
    report.faults += normalizers_among(env)
    report.figures["spaces"] = f"{one_line(env.observation_space)}, {one_line(env.action_space)}"
    actions = random_actions(trial.env, _STEPS, 1)
    decode = action_decoder(env.action_space, trial.plan.config.discretize_actions)
    deadline = time.monotonic() + _SECONDS
    obs = _reset(env, report, seed=1)
    steps = episodes = 0
    while steps < len(actions) and time.monotonic() < deadline and not report.faults:
        before = obs
        result = call(f"step {steps + 1}", env.step, decode(actions[steps])[0])
        steps += 1
        obs, has_ended = _check_step(env, before, result, report, f"step {steps}")
        if has_ended:
            episodes += 1
            obs = _reset(env, report, seed=None)
    report.figures["looked at"] = f"{steps} random steps, {episodes} ends of episodes"


def _reset(env: Any, report: Report, *, seed: int | None) -> Any:
    result = call(f"reset(seed={seed})", env.reset, seed=seed)
    if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)):
        raise StageError(f"reset returned {_kind(result)}; Gymnasium wants (observation, info), info a dict")
    with _located("reset"):
        report.faults += [f"reset: {fault}" for fault in observation_faults(env.observation_space, result[0])]
    return result[0]


def _check_step(env: Any, before: Any, result: Any, report: Report, where: str) -> tuple[Any, bool]:
    if not (isinstance(result, tuple) and len(result) == 5):
        raise StageError(f"step returned {_kind(result)}; Gymnasium wants (obs, reward, terminated, truncated, info)")
    obs, reward, terminated, truncated, info = result
    with _located(where):
        faults = observation_faults(env.observation_space, obs) + reward_faults(reward)
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(flag, bool | np.bool_):
            faults.append(f"{name} is {_kind(flag)}, not a bool")
    if not isinstance(info, dict):
        faults.append(f"info is {_kind(info)}, not a dict")
    if isinstance(obs, np.ndarray) and isinstance(before, np.ndarray) and np.shares_memory(obs, before):
        faults.append(
            "the observation is the array of the call before: whoever has kept that one sees it change; return a copy"
        )
    report.faults += [f"{where}: {fault}" for fault in faults]
    return obs, bool(terminated or truncated)


@contextmanager
def _located(where: str) -> Iterator[None]:
    """Says where a StageError comes from."""
    try:
        yield
    except StageError as error:
        raise StageError(f"{where}: {error}") from error


def observation_faults(space: Any, obs: Any) -> list[str]:
    """What is wrong with one observation of a Box or Discrete space.

    Raises:
        StageError: its shape is another one, or it is not finite, so that nothing can go on from it.
    """
    if not hasattr(space, "low"):
        return [] if space.contains(obs) else [f"observation {obs!r} is not in {one_line(space)}"]
    faults = [] if isinstance(obs, np.ndarray) else [f"the observation is {_kind(obs)}, not a NumPy array"]
    array = np.asarray(obs)
    if array.shape != space.shape or array.dtype.kind not in "biuf":
        raise StageError(f"the observation is {_kind(array)}, its space says shape {space.shape} of {space.dtype}")
    if not np.isfinite(array).all():
        index = tuple(np.argwhere(~np.isfinite(array))[0].tolist())
        raise StageError(f"column {_place(index)} of the observation is {array[index]}")
    if not faults and not np.can_cast(array.dtype, space.dtype):
        faults.append(f"the observation has dtype {array.dtype}, its space says {space.dtype}")
    outside = np.argwhere((array < space.low) | (array > space.high))
    if len(outside):
        index = tuple(outside[0].tolist())
        limits = f"[{space.low[index]:g}, {space.high[index]:g}]"
        faults.append(f"column {_place(index)} of the observation is {array[index]:g}, its space says {limits}")
    return faults


def reward_faults(reward: Any) -> list[str]:
    """What is wrong with one reward; StageError where it is not one finite number at all."""
    if isinstance(reward, bool | np.bool_):
        return ["the reward is a bool, not a number"]
    array = np.asarray(reward)
    if array.dtype.kind not in "biuf" or array.size != 1 or not np.isfinite(array).all():
        raise StageError(f"the reward is {reward!r}, {_kind(reward)}, not one finite number")
    return [] if isinstance(reward, NUMBERS) else [f"the reward is {_kind(reward)}, not a number"]


def _check_batch(env: Any, trial: Trial, report: Report) -> None:
    """The arrays of a class of one's own."""
    spec = trial.env
    obs = call("reset", env.reset, list(range(_NUM_ENVS)))
    arrays = {"reset": obs}
    flat = (_NUM_ENVS, spec.obs_size)
    wanted: dict[str, tuple[tuple[int, ...], type]] = {"reset": (flat, np.float32)}
    for step, action in enumerate(random_actions(spec, 10, _NUM_ENVS), 1):
        result = call(f"step {step}", env.step, action)
        fields = {"obs": flat, "reward": flat[:1], "terminated": flat[:1], "truncated": flat[:1], "final_obs": flat}
        dtypes = (np.float32, np.float64, np.bool_, np.bool_, np.float32)
        missing = [name for name in fields if not hasattr(result, name)]
        if missing:
            raise StageError(f"step returned {_kind(result)} without {', '.join(missing)}; return a protocols.Step")
        arrays |= {name: getattr(result, name) for name in fields}
        wanted |= dict(zip(fields, zip(fields.values(), dtypes, strict=True), strict=True))
        report.faults += [f"step {step}: {fault}" for fault in array_faults(arrays, wanted)]
        if report.faults:
            break
    report.figures["looked at"] = f"{step} random steps of {_NUM_ENVS} environments"


def array_faults(arrays: dict[str, Any], wanted: dict[str, tuple[tuple[int, ...], type]]) -> list[str]:
    """What is wrong with named arrays, given their shapes and dtypes; StageError where a shape is another one."""
    faults = []
    for name, array in arrays.items():
        shape, dtype = wanted[name]
        if not isinstance(array, np.ndarray) or array.shape != shape:
            raise StageError(f"{name} is {_kind(array)}, not an array of shape {shape}")
        if array.dtype != dtype:
            faults.append(f"{name} has dtype {array.dtype}, not {np.dtype(dtype)}")
    if "final_obs" in arrays and np.shares_memory(arrays["final_obs"], arrays["obs"]):
        faults.append("final_obs and obs are the same memory: the last observation of an episode is lost")
    return faults


def _place(index: tuple[int, ...]) -> str:
    return ", ".join(map(str, index))


def _kind(value: Any) -> str:
    """What something is, in words."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    name = type(value).__name__
    return f"{name} of length {len(value)}" if isinstance(value, tuple | list) else f"of type {name}"
