"""The loop over the steps of a rollout: policy and environments in turn, written to one actor's columns. Torch-free.

`run_steps` is the definition. An environment class with a `run_steps` of its own must fill the same bits.

Shapes: T rollout_length, K environments of the actor.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial

import numpy as np

from ddp_ppo.errors import printable
from ddp_ppo.protocols import Act, BatchEnv, Rows

_TERMS_INTERVAL = 16  # steps between two looks at the reward's terms, which lie in K dictionaries


def step_loop(env: BatchEnv) -> Callable[[Act, Rows], dict[str, float]]:
    """The loop of these environments: their own where they have one."""
    own: Callable[[Act, Rows], dict[str, float]] | None = getattr(env, "run_steps", None)
    return own or partial(run_steps, env)


def run_steps(env: BatchEnv, act: Act, rows: Rows) -> dict[str, float]:
    """Fills T steps of rows; returns the means of the reward's named terms over the steps that were looked at."""
    env_step, progress = env.step, rows.progress
    obs, actions, reward = list(rows.obs), list(rows.act), list(rows.reward)
    terminated, truncated = list(rows.terminated), list(rows.truncated)
    terms: dict[str, list[float]] = defaultdict(list)
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
        if step % _TERMS_INTERVAL == 0:
            for name, values in env.reward_terms().items():
                terms[name].append(float(values.mean()))
    return {printable(name): sum(means) / len(means) for name, means in terms.items()}
