"""What the stages of `ddp-ppo check` share: what is checked, what a stage has found, and recordings to compare.

Shapes: T steps, K environments, D observation size, A action size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.envs.build import make_batch_env, own_class_path
from ddp_ppo.envs.columns import Interface, describe_interface
from ddp_ppo.envs.gymnasium_env import build_env
from ddp_ppo.errors import FAULTS, EnvError, describe_cause
from ddp_ppo.protocols import BatchEnv, BoolArray, EnvSpec, FloatArray
from ddp_ppo.sampling.drive import Chooser, Transition, drive

if TYPE_CHECKING:
    from ddp_ppo.training.plan import Plan  # which would load torch in the process that a stage compares with

ROUNDING = 1e-5  # differences up to here come from the order of sums


class StageError(Exception):
    """A stage cannot go on, and neither can those after it; what was found, where, and what to do."""


class SkipStage(Exception):
    """A stage does not apply, or lacks an optional package; the message says which."""


@dataclass
class Report:
    """What one stage has found.

    Attributes:
        figures: single values by name.
        tables: rows of equal keys by name.
        notes: remarks that are no fault.
        faults: each of them makes the stage fail.
    """

    figures: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Trial:
    """What is checked, a temporary folder for what it writes, and the metrics of the rounds that were trained."""

    plan: Plan
    environ: Mapping[str, str]
    folder: Path
    rows: list[Mapping[str, float]] = field(default_factory=list)

    @property
    def env(self) -> EnvSpec:
        """The environment's description."""
        return self.plan.env

    @property
    def env_id(self) -> str:
        """What is looked at; of several tasks the first."""
        return self.plan.config.tasks[0]

    @property
    def own_class(self) -> str | None:
        """The user's own vectorised class; None for a Gymnasium environment."""
        return own_class_path(self.env_id, self.plan.config.env_backend)

    @cached_property
    def interface(self) -> Interface:
        """Names and units of the columns."""
        return describe_interface(self.plan.config.env_arguments)

    def at_most(self, num_envs: int) -> int:
        """So many environments, or as many as may be open at once."""
        return num_envs if self._limit is None else min(num_envs, self._limit)

    @cached_property
    def _limit(self) -> int | None:
        """How many instances there may be; None: any number. One is tried to be enough if training needs no more."""
        if self.plan.config.max_env_instances is not None or self.plan.num_training_instances > 1:
            return self.plan.config.max_env_instances
        try:
            with self.envs(2):
                return None
        except (EnvError, StageError):
            return 1

    @contextmanager
    def envs(self, num_envs: int, **changed: Any) -> Iterator[BatchEnv]:
        """K of its environments, closed in the end."""
        arguments = self.plan.config.env_arguments | {"env_id": self.env_id} | changed
        env = make_batch_env(num_envs=num_envs, **arguments)
        try:
            yield env
        finally:
            call("close", env.close)

    @contextmanager
    def gymnasium_env(self) -> Iterator[Any]:
        """One environment of Gymnasium, before it is made an array."""
        config = self.plan.config
        clock = config.remove_profiler_clock
        env, _ = build_env(self.env_id, config.env_arguments["env_kwargs"], config.max_episode_steps, clock)
        try:
            yield env
        finally:
            call("close", env.close)


class Recording(NamedTuple):
    """What came of T actions for each of K environments."""

    obs: FloatArray  # [T + 1, K, D] as a policy sees it: after an episode's end the next one's first
    reached: FloatArray  # [T, K, D] what each step led to: at an episode's end its last observation
    reward: NDArray[np.float64]  # [T, K]
    terminated: BoolArray  # [T, K]
    truncated: BoolArray  # [T, K]
    terms: dict[str, NDArray[np.float64]]  # [T, K] named parts of the reward

    @property
    def ended(self) -> BoolArray:
        """[T, K] whether an episode ended."""
        return self.terminated | self.truncated

    @staticmethod
    def joined(parts: Sequence[Recording]) -> Recording:
        """One recording of its parts in order."""
        names = dict.fromkeys(name for part in parts for name in part.terms)
        arrays = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in ("reached", "reward", "terminated", "truncated")
        }
        obs = np.concatenate([parts[0].obs[:1], *(part.obs[1:] for part in parts)])
        terms = {
            name: np.concatenate([part.terms.get(name, np.zeros_like(part.reward)) for part in parts]) for name in names
        }
        return Recording(obs, terms=terms, **arrays)


def call(where: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Calls what belongs to the user; StageError with the place in their code where it raises."""
    try:
        return function(*args, **kwargs)
    except EnvError as error:
        raise StageError(str(error)) from error
    except FAULTS as error:
        raise StageError(f"{where}: {describe_cause(error)}") from error


def record(env: BatchEnv, obs: FloatArray, actions: NDArray[Any]) -> Recording:
    """Steps K environments, which observe obs [K, D] now, through actions [T, K, A] or [T, K].

    Raises:
        StageError: a step raised, or something is not finite.
    """
    return record_choices(env, obs, _Given(actions), len(actions))


class _Given:
    """A list of actions for every environment."""

    def __init__(self, actions: NDArray[Any]) -> None:
        self._actions = iter(actions)

    def choose(self, obs: FloatArray) -> NDArray[Any]:
        """See `Chooser`."""
        action: NDArray[Any] = next(self._actions)
        return action

    def after(self, ended: BoolArray) -> None:
        """Nothing depends on what happened."""


def record_choices(env: BatchEnv, obs: FloatArray, chooser: Chooser, num_steps: int) -> Recording:
    """Steps K environments, which observe obs [K, D] now, through what somebody chooses; errors as `record`."""
    _require_finite(obs, None, "after the reset")
    seen, reached, rewards, ends, terms = [obs.copy()], [], [], [], []
    transitions = drive(env, chooser, obs)
    for step in range(1, num_steps + 1):
        transition: Transition = call(f"step {step}", next, transitions)
        result, last = transition.step, transition.reached
        _require_finite(last, result.reward, f"after step {step}")
        _require_finite(result.obs, None, f"after the reset in step {step}")
        seen.append(result.obs.copy())
        reached.append(last)
        rewards.append(result.reward.copy())
        ends.append((result.terminated.copy(), result.truncated.copy()))
        terms.append({name: values.copy() for name, values in call("reward_terms", env.reward_terms).items()})
    names = dict.fromkeys(name for each in terms for name in each)  # in the order of their first steps
    absent = np.zeros(len(obs))
    return Recording(
        np.array(seen),
        np.array(reached).reshape(-1, *obs.shape),
        np.array(rewards).reshape(-1, len(obs)),
        np.array([terminated for terminated, _ in ends], bool).reshape(-1, len(obs)),
        np.array([truncated for _, truncated in ends], bool).reshape(-1, len(obs)),
        {name: np.array([each.get(name, absent) for each in terms]) for name in names},
    )


def _require_finite(obs: FloatArray, reward: NDArray[np.float64] | None, when: str) -> None:
    for name, values in (("observation", obs), ("reward", reward)):
        if values is not None and not np.isfinite(values).all():
            index = tuple(np.argwhere(~np.isfinite(values))[0].tolist())
            column = f", column {index[1]}" if len(index) > 1 else ""
            raise StageError(f"{name} of environment {index[0]} is {values[index]} {when}{column}")


def reset(env: BatchEnv, seeds: list[int]) -> FloatArray:
    """The first observations [K, D], as the environment's own array."""
    obs: FloatArray = call("reset", env.reset, seeds)
    return obs


def random_actions(env: EnvSpec, num_steps: int, num_envs: int, *, seed: int = 0) -> NDArray[Any]:
    """Uniform actions [T, K, ...]."""
    return env.action.random(np.random.default_rng(seed), num_steps, num_envs)


def repeat(action: NDArray[Any], num_steps: int, num_envs: int) -> NDArray[Any]:
    """The same action in every step of every environment."""
    return np.tile(action, (num_steps, num_envs, *[1] * action.ndim))


def spread(values: Any) -> str:
    """Smallest, mean and largest."""
    array = np.asarray(values)
    low, mean, high = array.min(), array.mean(), array.max()
    return f"{low:.4g}" if low == high else f"{low:.4g} .. {high:.4g} (mean {mean:.4g})"


def difference(a: Recording, b: Recording) -> tuple[float, str]:
    """The largest difference of two recordings, inf where episodes end differently, and where the first one is."""
    differs = [(a.obs[0] != b.obs[0]).any()]
    differs += [
        any((getattr(a, name)[step] != getattr(b, name)[step]).any() for name in ("reached", "reward", "ended"))
        or bool((a.obs[step + 1] != b.obs[step + 1]).any())
        for step in range(len(a.reward))
    ]
    if not any(differs):
        return 0.0, ""
    first = differs.index(True)
    where = f"step {first}" if first else "the reset"
    if (a.ended != b.ended).any():
        return np.inf, where
    pairs = ((a.obs, b.obs), (a.reached, b.reached), (a.reward, b.reward))
    return max(float(np.abs(x - y).max(initial=0.0)) for x, y in pairs), where


def require_equal(report: Report, what: str, pair: tuple[Recording, Recording], complaint: str) -> bool:
    """Notes how two recordings compare, and a fault where they differ by more than rounding; whether they do not."""
    size, where = difference(*pair)
    report.figures[what] = "equal to the last bit" if size == 0 else f"up to {size:.2g} apart, first in {where}"
    if size > ROUNDING:
        report.faults.append(f"{complaint}; the first difference is in {where}")
    elif size:
        report.notes.append(f"{what}: equal up to rounding only")
    return size <= ROUNDING
