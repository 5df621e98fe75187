"""The public API: train a task, load a policy and act with it, evaluate it, make environments.

`import ddp_ppo` gives these functions without loading NumPy or torch until one of them is called. They print nothing
unless they are asked to, leave random generators, thread counts and signal handlers of the caller as they are, and work
in a thread, a notebook and a worker process of another framework. What programs may rely on is in `ddp_ppo.__all__`;
everything else may move.

Shapes: N observations, D observation size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp_ppo.config.load import load_config
from ddp_ppo.config.settings import Config
from ddp_ppo.envs.build import make_batch_env
from ddp_ppo.evaluation.evaluate import Evaluation, own_seeds
from ddp_ppo.evaluation.evaluate import evaluate as evaluate_model
from ddp_ppo.protocols import BatchEnv, Policy
from ddp_ppo.runs.console import Console
from ddp_ppo.runs.model import Model, acting_policy, load_model
from ddp_ppo.runs.model_env import in_environment
from ddp_ppo.training.history import OnRound, TrainingResult
from ddp_ppo.training.trainer import train as train_config

__all__ = ["LoadedPolicy", "evaluate", "load_policy", "make_env", "train"]


def train(
    task: str | Path | Config, *, on_round: OnRound | None = None, verbose: bool = False, **settings: Any
) -> TrainingResult:
    """Trains a policy to the end of its run and returns what became of it.

    In a script, call it below `if __name__ == "__main__":`: the actor processes import the script again.

    Args:
        task: an environment id such as "HalfCheetah-v5" (its packaged configuration, else the defaults), a
            configuration file, the name of a packaged configuration such as "half_cheetah", or a `Config`.
        on_round: is called after each round with its row of metrics, as in metrics.csv. Returning False ends the run
            after this round, with a checkpoint and a model.
        verbose: prints what the command line prints.
        settings: settings that replace those of the task, such as `total_env_steps=100_000, seed=3`.

    Returns:
        the run's `folder`, its `metrics` (name -> one number per round), its last and best evaluation return.

    Raises:
        ConfigError, EnvError, CheckpointError: a mistake in the settings or the environment; nothing was started.
        ActorError: an environment failed while training; the last complete round is saved.
    """
    config = task if isinstance(task, Config) else load_config(task)
    config = replace(config, **settings)
    return train_config(config, console=Console() if verbose else Console.silent(), on_round=on_round)


class LoadedPolicy:
    """A trained policy that acts on raw observations, its normaliser included.

    A policy with a memory keeps one state for each observation of a call; `reset` begins new episodes.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._policies: dict[int, Policy] = {}
        self._state: NDArray[np.float32] | None = None

    def __call__(self, obs: ArrayLike, *, deterministic: bool = True, seed: int | None = None) -> NDArray[Any]:
        """Actions for raw observations, in the environment's own values.

        Args:
            obs: one observation [D] (or of the environment's own shape), or a batch [N, D] of them.
            deterministic: the mean or the likeliest choice; else a sample.
            seed: of the sample's noise; None draws new noise in every call.

        Returns:
            an action for one observation, or [N, ...] for a batch.

        Raises:
            ValueError: an observation of another size, or one that is not finite.
        """
        rows, is_single = self._rows(np.asarray(obs, np.float32))
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
        return np.asarray(own[0] if is_single else own)

    def reset(self, ended: ArrayLike | None = None) -> None:
        """Begins new episodes: for the rows [N] where `ended` is true, or for all. Other policies need no reset."""
        if self._state is not None:
            self._state[slice(None) if ended is None else np.asarray(ended, bool)] = 0.0

    def _rows(self, obs: NDArray[np.float32]) -> tuple[NDArray[np.float32], bool]:
        """The observations as [N, D], and whether there was one alone."""
        size, shape = self.model.env.obs_size, self.model.env.image
        is_single = obs.shape == shape or obs.shape == (size,) or (obs.ndim == 0 and size == 1)
        rows = obs.reshape(1, -1) if is_single else obs.reshape(len(obs), -1)
        if rows.shape[1] != size:
            raise ValueError(f"an observation of {self.model.env.env_id} has {size} numbers, not the shape {obs.shape}")
        if not np.isfinite(rows).all():
            raise ValueError(f"observation not finite in column {int(np.argwhere(~np.isfinite(rows))[0][1])}")
        return np.ascontiguousarray(rows), is_single

    def _policy(self, num_rows: int) -> Policy:
        if num_rows not in self._policies:
            self._policies = {num_rows: acting_policy(self.model, num_rows)}
        return self._policies[num_rows]


def load_policy(place: str | Path, *, which: Literal["best", "current"] = "best") -> LoadedPolicy:
    """Reads a trained policy.

    Args:
        place: a run folder, a model file or a checkpoint.
        which: of a run folder the "best" model of its evaluations, or the "current" one.

    Raises:
        CheckpointError: there is none, or it is damaged.
    """
    if which not in ("best", "current"):
        raise ValueError(f"which must be 'best' or 'current', not {which!r}")
    return LoadedPolicy(load_model(place, which))


def evaluate(
    policy: LoadedPolicy | str | Path,
    *,
    episodes: int | None = None,
    seed: int | None = None,
    deterministic: bool = True,
) -> Evaluation:
    """Runs complete episodes under the fixed conditions of the policy's own run and returns their returns.

    Args:
        policy: of `load_policy`, or a place that it reads.
        episodes, seed: as in the run's own evaluations unless given.
        deterministic: the mean or the likeliest choice; else samples.

    Returns:
        `return_mean`, `return_std`, `returns` [episodes] and more.
    """
    model = in_environment(policy.model if isinstance(policy, LoadedPolicy) else load_model(policy))
    seeds = own_seeds(model, seed, episodes)
    return evaluate_model(model, seeds, actions="deterministic" if deterministic else "stochastic")


def make_env(
    env_id: str,
    num_envs: int = 1,
    *,
    env_kwargs: Mapping[str, Any] | None = None,
    **options: Any,
) -> BatchEnv:
    """Builds environments as arrays; `env.reset(seeds)`, one seed for each, gives the first observations.

    `ddp_ppo.protocols.BatchEnv` says what else they offer.

    Args:
        env_id: a Gymnasium id, `module:Id-v0`, or `module:Class` of a vectorised class.
        num_envs: how many.
        env_kwargs: arguments of the environment's constructor.
        options: as for `ddp_ppo.envs.build.make_batch_env`, such as `backend` and `max_episode_steps`.

    Raises:
        EnvError: it cannot be built.
    """
    return make_batch_env(env_id, num_envs, env_kwargs=env_kwargs, **options)
