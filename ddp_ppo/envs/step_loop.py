"""The loop over the steps of a rollout: policy and environments in turn, written to one actor's columns. Torch-free.

`run_steps` is the definition. An environment class with a `run_steps` of its own must fill the same bits.

Shapes: T rollout_length, K environments of the actor.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.errors import EnvError, printable
from ddp_ppo.protocols import Act, BatchEnv, Rows

_PARAMETERS = ["act", "rows"]  # of a class's own loop; a method of this name with others is something else


def step_loop(env: BatchEnv) -> Callable[[Act, Rows], dict[str, float]]:
    """The loop of these environments: their own `run_steps(act, rows)` where they have one."""
    own: Callable[[Act, Rows], dict[str, float]] | None = getattr(env, "run_steps", None)
    return own if own is not None and _parameters_of(own) == _PARAMETERS else partial(run_steps, env)


def _parameters_of(method: object) -> list[str]:
    """The names of a method's parameters; none where it is not callable or does not say."""
    try:
        return [*inspect.signature(method).parameters]  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return []


def run_steps(env: BatchEnv, act: Act, rows: Rows) -> dict[str, float]:
    """Fills T steps of rows; returns the mean of each named term of the reward, which is 0 in steps without it."""
    env_step, env_terms, progress = env.step, env.reward_terms, rows.progress
    obs, actions, reward = list(rows.obs), list(rows.act), list(rows.reward)
    terminated, truncated = list(rows.terminated), list(rows.truncated)
    sums: dict[str, NDArray[np.float64]] = {}
    for step in range(len(actions)):
        progress[0] = step
        result = env_step(act(step, obs[step], actions[step]))
        obs[step + 1][...] = result.obs
        reward[step][...] = result.reward
        terminated[step][...] = result.terminated
        truncated[step][...] = result.truncated
        if np.count_nonzero(result.truncated):
            ended = result.truncated
            rows.final_obs[step][ended] = result.final_obs[ended]
        if terms := env_terms():
            _add_terms(sums, terms, result.reward.shape)
    return {printable(name): float(total.mean()) / len(actions) for name, total in sums.items()}


def _add_terms(
    sums: dict[str, NDArray[np.float64]], terms: Mapping[str, NDArray[np.float64]], shape: tuple[int, ...]
) -> None:
    """Adds one step's terms [K] to the sums, each of which begins with the first step that has it."""
    try:
        for name, values in terms.items():
            if name not in sums:
                sums[name] = np.zeros(shape)
            sums[name] += values
    except (AttributeError, TypeError, ValueError) as error:
        raise EnvError(
            f"reward_terms() has to return a dict of arrays of shape {shape}, not {type(terms).__name__}: {error}"
        ) from error
