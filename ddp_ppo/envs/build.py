"""Environments as arrays: one function builds them, one describes them, one table holds the backends.

Backends: "gymnasium" runs any Gymnasium environment, "mujoco" the Gymnasium MuJoCo tasks straight on batched physics,
"auto" the second where it covers the task and the first elsewhere. A user's own vectorised class is given as
`module:Class`, in place of the id or as the backend. Around them: several tasks as one batch, discrete actions.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, chdir, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import gymnasium

from ddp_ppo.envs.discrete_actions import DiscreteActions
from ddp_ppo.envs.gymnasium_env import GymnasiumEnv
from ddp_ppo.envs.instance import ALONE, Instances
from ddp_ppo.envs.mujoco.batch import missing_batch
from ddp_ppo.envs.multi_task import MixedEnv, Part, mixed_spec, task_ids
from ddp_ppo.envs.own_class import require_spec
from ddp_ppo.envs.probe import probed_spec
from ddp_ppo.envs.registered import find_registered, import_module
from ddp_ppo.envs.untouched import untouched
from ddp_ppo.errors import FAULTS, EnvError, blamed, describe_cause
from ddp_ppo.processes.lifetime import time_limit
from ddp_ppo.protocols import BatchEnv, EnvSpec

__all__ = ["EnvError", "closed_in_the_end", "describe_env", "make_batch_env", "make_up_to"]

_CLOSE_SECONDS = 5.0
Closable = TypeVar("Closable", bound=Any)  # has a method close
_METHODS = ("reset", "step", "save", "restore", "reward_terms", "close")


def make_batch_env(
    env_id: str | Sequence[str],
    num_envs: int,
    *,
    env_kwargs: Mapping[str, Any] | None = None,
    backend: str = "auto",
    max_episode_steps: int | None = None,
    remove_profiler_clock: bool = True,
    discretize_actions: int | None = None,
    first_index: int = 0,
    instances: Instances = ALONE,
) -> BatchEnv:
    """Builds `num_envs` environments; this process's global generators and other state stay as they are.

    Warnings that building raises are dropped: `describe_env` showed them before, once and not in every actor.

    Args:
        env_id: a Gymnasium id, `module:Id-v0` (the module is imported first and registers it), or `module:Class`;
            of a list of n ids environment i gets number i mod n.
        num_envs: K.
        env_kwargs: arguments of the environment's constructor.
        backend: "auto", "gymnasium", "mujoco", or `module:Class`.
        max_episode_steps: replaces the registered time limit.
        remove_profiler_clock: stop MuJoCo from timing itself (see profiler_clock), in this process.
        discretize_actions: makes a Box action a choice from a grid with so many values of each dimension.
        first_index: number of the first of these environments among those of a learner.
        instances: how they are told apart while they are built.

    Raises:
        EnvError: one line that says what is wrong with the id, the arguments, the spaces or the backend.
    """
    options = {"max_episode_steps": max_episode_steps, "remove_profiler_clock": remove_profiler_clock}
    build = partial(_build, backend=backend, env_kwargs=dict(env_kwargs or {}), options=options, instances=instances)
    with untouched(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _build_all(task_ids(env_id), range(first_index, first_index + num_envs), build, discretize_actions)


def make_up_to(num_envs: int, **arguments: Any) -> BatchEnv:
    """Builds so many environments, or one alone if more are refused; of several tasks all. Otherwise `make_batch_env`.

    Whoever runs episodes in turn needs no second instance: there may be one robot, or one licence.
    """
    try:
        return make_batch_env(num_envs=num_envs, **arguments)
    except EnvError:
        if num_envs == 1 or len(task_ids(arguments["env_id"])) > 1:
            raise
    return make_batch_env(num_envs=1, **arguments)


@contextmanager
def closed_in_the_end(env: Closable, env_id: str) -> Iterator[Closable]:
    """Closes an environment; if that fails, what was done with it still counts, and a warning says so."""
    try:
        yield env
    finally:
        try:
            env.close()
        except FAULTS as error:
            warnings.warn(f"{env_id}: not closed properly: {describe_cause(error)}", stacklevel=1)


def describe_env(
    env_id: str | Sequence[str],
    *,
    env_kwargs: Mapping[str, Any] | None = None,
    backend: str = "auto",
    max_episode_steps: int | None = None,
    remove_profiler_clock: bool = True,
    discretize_actions: int | None = None,
    actor_timeout_seconds: float = 0.0,
    say: Callable[[str], None] = lambda note: None,
) -> EnvSpec:
    """Builds one environment, tries it, closes it and returns its description; arguments and errors: `make_batch_env`.

    Of several tasks the first is tried. The current folder stays what it is, wherever the environment goes.

    Args:
        actor_timeout_seconds: longest that all this may take, in the main thread; 0 is no limit.
        say: is called with what a person should know of it.
    """
    options = {"max_episode_steps": max_episode_steps, "remove_profiler_clock": remove_profiler_clock}
    build = partial(_build, backend=backend, env_kwargs=dict(env_kwargs or {}), options=options, instances=ALONE)
    changed: list[str] = []
    try:
        with untouched(changed.append), chdir("."), time_limit(actor_timeout_seconds, _Overdue()):
            env = _build_all(task_ids(env_id), range(1), build, discretize_actions)
            spec = probed_spec(env, actor_timeout_seconds)
            _close(env, min(actor_timeout_seconds, _CLOSE_SECONDS), say)
    except _Overdue as overdue:
        place = traceback.extract_tb(overdue.__traceback__)[-2]  # the last one is the limit's
        limit = f"actor_timeout_seconds={actor_timeout_seconds:g}"
        words = f"not built within {limit}; it was in {place.name} ({place.filename}:{place.lineno})"
        raise EnvError(f"{', '.join(task_ids(env_id))}: {words}") from overdue
    if changed:
        what = f"importing or building it changes {', '.join(changed)} of the process"
        say(f"{', '.join(task_ids(env_id))}: {what}; put back: let its own calls set it if they need it")
    return spec


def _close(env: BatchEnv, seconds: float, say: Callable[[str], None]) -> None:
    try:
        with time_limit(seconds, TimeoutError(f"it takes more than {seconds:g} s")):
            env.close()
    except FAULTS as error:
        say(f"{env.spec.env_id}: cannot close the environment: {describe_cause(error)}")


class _Overdue(BaseException):
    """The time is up; not for an environment to handle."""


def _build_all(
    ids: Sequence[str], numbers: range, build: Callable[[str, range], BatchEnv], discretize_actions: int | None
) -> BatchEnv:
    env = build(ids[0], numbers) if len(ids) == 1 else _build_mixed(ids, numbers, build)
    if discretize_actions is None:
        return env
    try:
        return DiscreteActions(env, discretize_actions)
    except EnvError:
        env.close()
        raise


def _build_mixed(ids: Sequence[str], numbers: range, build: Callable[[str, range], BatchEnv]) -> BatchEnv:
    """Environments of each id; one is built, and closed again, where none of these is its turn."""
    turns = [slice((turn - numbers.start) % len(ids), len(numbers), len(ids)) for turn in range(len(ids))]
    specs: dict[str, EnvSpec] = {}
    for one, own in zip(ids, turns, strict=True):
        if not numbers[own]:  # before those that stay: no two instances with one number are open at once
            env = build(one, numbers[:1])
            specs[one] = env.spec
            env.close()
    parts = []
    with ExitStack() as stack:
        for one, own in zip(ids, turns, strict=True):
            if numbers[own]:
                env = build(one, numbers[own])
                stack.callback(env.close)
                specs[one] = env.spec
                parts.append(Part(env, own))
        mixed = MixedEnv(mixed_spec([specs[one] for one in ids]), len(numbers), parts)
        stack.pop_all()
    return mixed


def _build(
    env_id: str,
    numbers: range,
    *,
    backend: str,
    env_kwargs: dict[str, Any],
    options: dict[str, Any],
    instances: Instances,
) -> BatchEnv:
    num_envs, limit = len(numbers), options["max_episode_steps"]
    if num_envs < 1 or (limit is not None and limit < 1):
        raise EnvError(f"{env_id}: num_envs {num_envs} and max_episode_steps {limit} must be positive")
    class_path = own_class_path(env_id, backend)
    if class_path is not None:
        if limit is not None:
            raise EnvError(
                f"{class_path}: max_episode_steps has no effect on a vectorised class, which keeps the time: give "
                f"the limit to its constructor, as in env_kwargs={{max_episode_steps: {limit}}}"
            )
        with instances.building(numbers[0]):
            own = _build_own(class_path, num_envs, env_kwargs)
        if own.spec.env_id != env_id:  # a subclass keeps its parent's, a checkpoint must find its own again
            with blamed(f"{class_path}: attribute spec says env_id {own.spec.env_id!r} and cannot be set"):
                own.spec = replace(own.spec, env_id=env_id)
        return own
    if backend not in ("auto", *_BACKENDS):
        known = ", ".join(("auto", *_BACKENDS, "module:Class"))
        raise EnvError(f"{env_id}: unknown backend {backend!r}; use one of {known}")
    reason = _why_not_mujoco(env_id, env_kwargs)
    if backend == "mujoco" and reason is not None:
        raise EnvError(f"{env_id}: backend mujoco does not cover it: {reason}")
    chosen = backend if backend != "auto" else "mujoco" if reason is None else "gymnasium"
    return _BACKENDS[chosen](env_id, numbers, instances, env_kwargs=env_kwargs, **options)


def _why_not_mujoco(env_id: str, env_kwargs: dict[str, Any]) -> str | None:
    registered = find_registered(env_id)
    if not str(registered.entry_point).startswith("gymnasium.envs.mujoco."):  # do not load MuJoCo for CartPole
        return "it is none of Gymnasium's MuJoCo tasks"
    from ddp_ppo.envs.mujoco.tasks import covers

    return covers(registered.id, env_kwargs) or missing_batch()


def backend_notes(env_id: str | Sequence[str], *, env_kwargs: Mapping[str, Any], backend: str, **_: Any) -> list[str]:
    """What to know about the backend that "auto" has chosen; arguments as `describe_env`, which has accepted them."""
    if backend != "auto" or missing_batch() is None:
        return []
    ids = [one for one in task_ids(env_id) if own_class_path(one) is None]
    slow = [one for one in ids if _why_not_mujoco(one, dict(env_kwargs)) == missing_batch()]
    return [f"{', '.join(slow)}: runs on Gymnasium's own classes, which are slower: {missing_batch()}"][: len(slow)]


def _build_gymnasium(env_id: str, numbers: range, instances: Instances, **options: Any) -> BatchEnv:
    return GymnasiumEnv(env_id, len(numbers), numbers=numbers, instances=instances, **options)


def _build_mujoco(env_id: str, numbers: range, instances: Instances, **options: Any) -> BatchEnv:
    """Instances that nobody can tell apart: they are rows of arrays, built of Gymnasium's own classes alone."""
    from ddp_ppo.envs.mujoco.env import MujocoEnv

    return MujocoEnv(env_id, len(numbers), **options)


_BACKENDS: dict[str, Callable[..., BatchEnv]] = {"gymnasium": _build_gymnasium, "mujoco": _build_mujoco}


def own_class_path(env_id: str, backend: str = "auto") -> str | None:
    """The user's own vectorised class: the backend, or the id if it names a class rather than a registered id."""
    if ":" in backend:
        return backend
    module, _, name = env_id.rpartition(":")
    if not module or not name.isidentifier():
        return None
    own = getattr(import_module(module, env_id), name, None)
    return env_id if isinstance(own, type) and name not in gymnasium.registry else None


def _build_own(class_path: str, num_envs: int, env_kwargs: dict[str, Any]) -> BatchEnv:
    """Builds a user's own `BatchEnv` and checks that it is one."""
    module, _, name = class_path.rpartition(":")
    own_class = getattr(import_module(module, class_path), name, None)
    if not callable(own_class):
        raise EnvError(f"{class_path}: module {module!r} has no class {name!r}")
    with blamed(f"{class_path}: cannot build the environment"):
        env = own_class(num_envs, **env_kwargs)
    missing = [method for method in _METHODS if not callable(getattr(env, method, None))]
    if missing:
        raise EnvError(f"{class_path}: missing methods {', '.join(missing)} of BatchEnv (ddp_ppo/protocols.py)")
    if not isinstance(getattr(env, "spec", None), EnvSpec):
        raise EnvError(f"{class_path}: attribute spec must be a ddp_ppo.protocols.EnvSpec")
    require_spec(env.spec, class_path)
    if getattr(env, "num_envs", None) != num_envs:
        raise EnvError(f"{class_path}: attribute num_envs must be {num_envs}, not {getattr(env, 'num_envs', None)}")
    batch_env: BatchEnv = env
    return batch_env
