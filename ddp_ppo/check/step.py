"""`ddp-ppo step CONFIG`: steps one environment in this process and prints each step, so that breakpoints work.

No other process is started and nothing has a time limit. The environment gets what it would get in training; if it
raises, its own traceback is shown.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.config.settings import Config
from ddp_ppo.envs.build import closed_in_the_end, make_batch_env
from ddp_ppo.envs.columns import describe_interface
from ddp_ppo.errors import EnvError, first_cause, is_left_debugger
from ddp_ppo.evaluation.trajectory import read_actions
from ddp_ppo.maths.seeding import seed_global_generators
from ddp_ppo.protocols import BoolArray, Column, EnvSpec, FloatArray, Step
from ddp_ppo.runs.model import acting_policy, load_model
from ddp_ppo.sampling.drive import Chooser, Player, drive
from ddp_ppo.text import listed

_MOST_SHOWN = 40  # values of an observation or an action in a line


@dataclass(frozen=True, kw_only=True)
class Steps:
    """What to step through.

    Attributes:
        actions: "random", "zero", or a file as for `play`.
        policy: a model whose deterministic actions take their place; None: none.
        seed: of the reset and of random actions.
    """

    actions: str = "random"
    policy: str | None = None
    num_steps: int = 100
    seed: int = 0


def step_through(config: Config, steps: Steps, say: Callable[[str], None]) -> None:
    """Steps the first of a configuration's environments, over the ends of episodes, and prints what happens.

    Raises:
        EnvError: the environment cannot be built or fails; its traceback has been printed.
        ConfigError, CheckpointError: the actions or the policy cannot be read.
    """
    try:
        _step_through(config.env_arguments | {"env_id": config.tasks[0]}, steps, say)
    except EnvError as error:
        cause = first_cause(error)
        if not is_left_debugger(cause):
            traceback.print_exception(cause)
            raise


def _step_through(arguments: dict[str, Any], steps: Steps, say: Callable[[str], None]) -> None:
    interface = describe_interface(arguments)
    with closed_in_the_end(make_batch_env(num_envs=1, **arguments), arguments["env_id"]) as env:
        seed_global_generators(steps.seed)
        chooser, num_steps = _chooser(env.spec, steps)
        obs = env.reset([steps.seed])
        say(f"reset(seed={steps.seed})\n  obs     {_named(interface.obs, obs[0])}")
        for number, one in enumerate(islice(drive(env, chooser, obs), num_steps), 1):
            action = env.spec.action.to_own(one.action)[0]
            lines = [f"step {number}: {_result(one.step, env.reward_terms())}"]
            lines.append(f"  action  {_named(interface.action, action) if np.ndim(action) else action}")
            lines.append(f"  obs     {_named(interface.obs, one.reached[0])}")
            lines += [f"  reset   {_named(interface.obs, one.step.obs[0])}"] if one.ended[0] else []
            say("\n".join(lines))


def _result(step: Step, terms: Mapping[str, NDArray[np.float64]]) -> str:
    """The reward with its terms, and whether the episode has ended."""
    parts = ", ".join(f"{name} {values[0]:.6g}" for name, values in terms.items())
    ends = [name for name in ("terminated", "truncated") if getattr(step, name)[0]]
    return ", ".join([f"reward {step.reward[0]:.6g}" + (f" ({parts})" if parts else ""), *ends])


def _named(columns: Sequence[Column], values: NDArray[Any]) -> str:
    return listed([f"{column.name} {value:.6g}" for column, value in zip(columns, values, strict=False)], _MOST_SHOWN)


def _chooser(env: EnvSpec, steps: Steps) -> tuple[Chooser, int]:
    """What decides on the actions, and for how many steps at most."""
    if steps.policy is not None:
        return Player(acting_policy(load_model(steps.policy), 1), 1), steps.num_steps
    if steps.actions == "random":
        return _Given(env.action.random(np.random.default_rng(steps.seed), steps.num_steps, 1)), steps.num_steps
    if steps.actions == "zero":
        return _Given(repeat(env.action.neutral()[None], steps.num_steps)), steps.num_steps
    act = env.action.from_own(read_actions(Path(steps.actions), env).act)
    return _Given(act[:, None]), min(steps.num_steps, len(act))


class _Given:
    """Actions one after the other, [1, ...] each."""

    def __init__(self, actions: Iterable[NDArray[Any]]) -> None:
        self._actions: Iterator[NDArray[Any]] = iter(actions)

    def choose(self, obs: FloatArray) -> NDArray[Any]:
        """See `Chooser`."""
        return next(self._actions)

    def after(self, ended: BoolArray) -> None:
        """Nothing depends on what happened."""
