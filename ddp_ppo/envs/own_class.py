"""Whether a vectorised class of a user keeps to `BatchEnv`: its description, and the arrays of its first calls.

Shapes: K environments, D observation size, A dimensions or choices of the action.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from ddp_ppo.actions.kinds import ACTIONS
from ddp_ppo.errors import EnvError
from ddp_ppo.protocols import BatchEnv, EnvSpec, Step


def require_spec(spec: EnvSpec, class_path: str) -> None:
    """Raises EnvError if a description contradicts itself."""
    bounds, limit = (len(spec.action_low), len(spec.action_high)), spec.max_episode_steps
    size = spec.action_size if spec.action_kind == "box" else 0
    for is_right, words in (
        (_is_count(spec.obs_size), f"obs_size must be a whole number >= 1, not {spec.obs_size!r}"),
        (spec.action_kind in ACTIONS, f"action_kind must be one of {', '.join(ACTIONS)}, not {spec.action_kind!r}"),
        (_is_count(spec.action_size), f"action_size must be a whole number >= 1, not {spec.action_size!r}"),
        (limit is None or _is_count(limit), f"max_episode_steps must be None or a whole number >= 1, not {limit!r}"),
        (
            bounds == (size, size),
            f"action_low and action_high must have {size} numbers each (action_kind {spec.action_kind}), not "
            f"{bounds[0]} and {bounds[1]}; an unbounded dimension has -inf and inf",
        ),
    ):
        if not is_right:
            raise EnvError(f"{class_path}: attribute spec: {words}")


def _is_count(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 1


def watch_first_calls(env: BatchEnv) -> None:
    """Has the first `reset` and the first `step` raise EnvError if their arrays are not those of `BatchEnv`.

    NumPy would repeat a smaller array without a word. Later calls are the class's own again.
    """
    num_envs, size, name = env.num_envs, env.spec.obs_size, env.spec.env_id
    shapes = {"obs": (num_envs, size), "reward": (num_envs,), "terminated": (num_envs,), "truncated": (num_envs,)}

    def check_reset(obs: Any) -> None:
        _require_array(f"{name}: reset()", obs, (num_envs, size), "fiub")

    def check_step(step: Any) -> None:
        if missing := [field for field in Step._fields if not hasattr(step, field)]:
            kind = type(step).__name__
            raise EnvError(f"{name}: step() must return a ddp_ppo.protocols.Step, not a {kind} without {missing[0]}")
        for field, shape in shapes.items():
            kinds = "b" if field in ("terminated", "truncated") else "fiub"
            _require_array(f"{name}: step(): {field}", getattr(step, field), shape, kinds)

    _watch(env, "reset", check_reset)
    _watch(env, "step", check_step)


def _watch(env: BatchEnv, method: str, check: Callable[[Any], None]) -> None:
    own = getattr(env, method)

    def first(*arguments: Any, **named: Any) -> Any:
        result = own(*arguments, **named)
        setattr(env, method, own)
        check(result)
        return result

    with suppress(AttributeError):  # a class with __slots__ is not watched
        setattr(env, method, first)


def _require_array(place: str, value: Any, shape: tuple[int, ...], kinds: str) -> None:
    if not isinstance(value, np.ndarray):
        raise EnvError(f"{place} must be an array of the shape {shape}, not a {type(value).__name__}")
    if value.shape != shape or value.dtype.kind not in kinds:
        dtype = "bool" if kinds == "b" else "numbers"
        raise EnvError(f"{place} must be an array of {dtype} of the shape {shape}, not {value.dtype} {value.shape}")
