"""The public API: train a task, load a policy and act with it, evaluate it, make environments.

`import ddp_ppo` gives these functions without loading NumPy or torch until one of them is called. They print nothing
unless they are asked to, leave random generators, thread counts and signal handlers of the caller as they are, and work
in a thread, a notebook and a worker process of another framework. What programs may rely on is in `ddp_ppo.__all__`;
everything else may change.

Shapes: N observations, D observation size.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp_ppo.config.load import load_config
from ddp_ppo.config.packaged import FOLDER
from ddp_ppo.config.paths import expand_path
from ddp_ppo.config.settings import Config, ConfigError
from ddp_ppo.config.yaml_text import RefusedError
from ddp_ppo.envs.build import make_batch_env
from ddp_ppo.errors import EnvError
from ddp_ppo.evaluation.evaluate import Evaluation, own_seeds
from ddp_ppo.evaluation.evaluate import evaluate as evaluate_model
from ddp_ppo.observations.raw import rows_of
from ddp_ppo.processes.stop_request import interruption
from ddp_ppo.protocols import BatchEnv, Policy
from ddp_ppo.runs.console import Console
from ddp_ppo.runs.files import CheckpointError
from ddp_ppo.runs.model import Model, acting_policy, load_model
from ddp_ppo.runs.model_env import in_environment
from ddp_ppo.training.history import OnRound, TrainingResult
from ddp_ppo.training.trainer import train as train_config

__all__ = ["LoadedPolicy", "evaluate", "load_policy", "make_env", "train"]


def train(
    task: str | Path | Config, *, on_round: OnRound | None = None, verbose: bool = False, **settings: Any
) -> TrainingResult:
    """Trains a policy to the end of its run.

    In a script, call it below `if __name__ == "__main__":`: the actor processes import the script again.

    Args:
        task: an environment id such as "HalfCheetah-v5" (its packaged configuration, else the defaults), a
            configuration file, the name of a packaged configuration such as "half_cheetah", or a `Config`.
        on_round: is called after each round with a copy of its row of metrics, as in metrics.csv; a value is NaN if
            the round had none. Returning False ends the run, with a checkpoint and a model; nothing else does.
        verbose: prints what the command line prints.
        settings: settings that replace those of the task, such as `total_env_steps=100_000, seed=3`; a section is a
            mapping that changes some of its settings, such as `ppo={"clip_range": 0.1}`.

    Returns:
        the run's `folder`, its `metrics` (name -> one number per round), its last and best evaluation return.

    Raises:
        ConfigError, EnvError, CheckpointError: a mistake in the settings or the environment; nothing was started.
        ActorError: an environment failed while training; the last complete round is saved.
        KeyboardInterrupt: after Ctrl-C; the last complete round is saved, unless it took more than 6 s to stop or there
            was a second Ctrl-C. SystemExit likewise after TERM or HUP.
    """
    config = task if isinstance(task, Config) else load_config(task)
    other = settings.get("env_id", config.env_id)
    if config.env_id == task != other:
        raise ConfigError(f"env_id: given twice, as {task} and as {other}")
    config = replace(config, **settings)
    result = train_config(config, console=Console() if verbose else Console.silent(), on_round=on_round)
    if result.stop_signal is not None:
        where = "" if result.home is None else f"stopped and saved; resume={result.home} continues the run"
        raise interruption(result.stop_signal, where)
    return result


class LoadedPolicy:
    """A trained policy that acts on raw observations, its normaliser included.

    A policy with a memory keeps one state for each observation of a call; `reset` begins new episodes.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._policies: dict[int, Policy] = {}
        self._state: NDArray[np.float32] | None = None

    def __repr__(self) -> str:
        model = self.model
        return f"LoadedPolicy({model.env.env_id}, round {model.info.get('round', 'unknown')}, {model.path})"

    def __call__(self, obs: ArrayLike, *, deterministic: bool = True, seed: int | None = None) -> NDArray[Any]:
        """Actions for raw observations, in the environment's own values.

        Args:
            obs: one observation as the environment returns it, or flattened [D], or a batch of N of either.
            deterministic: the mean or the likeliest choice; else a sample.
            seed: of the sample's noise; None draws new noise in every call.

        Returns:
            an action for one observation (a NumPy number if it is a choice), or [N, ...] for a batch.

        Raises:
            ValueError: an observation of another size, one that is not finite, or a seed for deterministic actions.
        """
        if deterministic and seed is not None:
            raise ValueError("seed has no effect on deterministic actions; add deterministic=False")
        rows, is_single = rows_of(obs, vars(self.model.env))
        policy = self._policy(len(rows))
        if self._state is None or len(self._state) != len(rows):
            self._state = np.zeros((len(rows), policy.state_size), np.float32)
        if deterministic:
            actions = policy.mode(rows, self._state)
        else:
            policy.begin(np.random.default_rng(seed))
            head = policy.head
            actions = policy.act(0, rows, np.empty((len(rows), *head.act_shape), head.act_dtype), self._state)
        own = self.model.env.action.to_own(actions)
        return own[0] if is_single else np.asarray(own)

    def reset(self, ended: ArrayLike | None = None) -> None:
        """Begins new episodes: for the rows [N] where `ended` is true, or for all. Other policies need no reset."""
        if self._state is None:
            return
        rows = np.ones(len(self._state), bool) if ended is None else np.asarray(ended, bool)
        if rows.shape != self._state.shape[:1]:
            raise ValueError(f"ended has the shape {rows.shape}, the last observations were {len(self._state)}")
        self._state[rows] = 0.0

    def _policy(self, num_rows: int) -> Policy:
        if num_rows not in self._policies:
            self._policies = {num_rows: acting_policy(self.model, num_rows)}
        return self._policies[num_rows]


def load_policy(place: str | Path, *, which: Literal["best", "current"] = "best") -> LoadedPolicy:
    """Reads a trained policy.

    Args:
        place: a run folder, a model file or a checkpoint; `~` and `$VARIABLES` stand for what they do in a shell.
        which: of a run folder the "best" model of its evaluations, or the "current" one.

    Raises:
        CheckpointError: there is none, or it is damaged.
    """
    if which not in ("best", "current"):
        raise ValueError(f"which must be 'best' or 'current', not {which!r}")
    return LoadedPolicy(_loaded(place, which))


def _loaded(place: object, which: Literal["best", "current"]) -> Model:
    if not isinstance(place, str | os.PathLike) or not os.fspath(place):
        raise CheckpointError(f"a policy is named by a run folder, a checkpoint or a model file, not by {place!r}")
    try:
        return load_model(expand_path(os.fspath(place)), which)
    except RefusedError as error:
        raise CheckpointError(f"{place}: {error}") from error


def evaluate(
    policy: LoadedPolicy | str | Path,
    *,
    episodes: int | None = None,
    seed: int | None = None,
    deterministic: bool = True,
) -> Evaluation:
    """Runs complete episodes under the fixed conditions of the policy's own run.

    Args:
        policy: of `load_policy`, or a place that it reads.
        episodes: how many, at least 1; as in the run's own evaluations unless given.
        seed: root of the episodes' seeds, at least 0; the run's unless given.
        deterministic: the mean or the likeliest choice; else samples.

    Returns:
        `return_mean`, `return_std`, `returns` [episodes] and more.

    Raises:
        ValueError: one of the arguments.
        CheckpointError, EnvError: the policy or its environment cannot be used.
    """
    if not isinstance(deterministic, bool | np.bool_):
        raise ValueError(f"deterministic must be True or False, not {deterministic!r}")
    counts = None if episodes is None else _whole("episodes", episodes, 1)
    root = None if seed is None else _whole("seed", seed, 0)
    model = in_environment(policy.model if isinstance(policy, LoadedPolicy) else _loaded(policy, "best"))
    seeds = own_seeds(model, root, counts)
    return evaluate_model(model, seeds, actions="deterministic" if deterministic else "stochastic")


def make_env(
    env_id: str,
    num_envs: int = 1,
    *,
    env_kwargs: Mapping[str, Any] | None = None,
    backend: str = "auto",
    max_episode_steps: int | None = None,
    discretize_actions: int | None = None,
    remove_profiler_clock: bool = True,
) -> BatchEnv:
    """Builds environments as arrays; `env.reset(seeds)`, one seed for each, gives the first observations.

    `ddp_ppo.BatchEnv` says what else they offer; `contextlib.closing` closes them at the end of a block.

    Args:
        env_id: a Gymnasium id, `module:Id-v0`, or `module:Class` of a vectorised class.
        num_envs: how many, at least 1.
        env_kwargs: arguments of the environment's constructor.
        backend, max_episode_steps, discretize_actions, remove_profiler_clock: as the settings of these names; `backend`
            is the setting `env_backend`.

    Raises:
        EnvError: it cannot be built.
        ValueError: one of the other arguments.
    """
    if not isinstance(env_id, str) or not env_id.strip():
        raise EnvError(f"an environment is named by an id such as 'Ant-v5', not by {env_id!r}")
    if (FOLDER / f"{env_id}.yaml").is_file():
        raise EnvError(f"{env_id} is a configuration; its environment is {load_config(env_id).env_id}")
    if env_kwargs is not None and not isinstance(env_kwargs, Mapping):
        raise ValueError(f"env_kwargs must be a mapping of names, not {env_kwargs!r}")
    return make_batch_env(
        env_id,
        _whole("num_envs", num_envs, 1),
        env_kwargs=env_kwargs,
        backend=backend,
        max_episode_steps=max_episode_steps,
        discretize_actions=discretize_actions,
        remove_profiler_clock=remove_profiler_clock,
    )


def _whole(name: str, value: Any, low: int) -> int:
    """An argument that counts, also a number of NumPy."""
    try:
        number = operator.index(value)
    except TypeError:
        number = low - 1
    if number < low or isinstance(value, bool):
        raise ValueError(f"{name} must be a whole number >= {low}, not {value!r}")
    return number
