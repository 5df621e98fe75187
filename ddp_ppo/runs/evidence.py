"""What is kept of a rollout with a value that is not finite, and how it is replayed.

The file holds the state of the actor's environments before the rollout and every action since, so that the same
environments can be driven to the same place; and the last rows of the rollout in plain sight.

Shapes: K environments of the actor, D observation size, A action size.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ddp_ppo.envs.build import make_batch_env
from ddp_ppo.protocols import Arrays, EnvSpec, PlainState
from ddp_ppo.runs.files import CheckpointError, load_plain, save_plain

NUM_KEPT = 50  # last rows of the environment in question


def save_evidence(
    path: Path,
    *,
    env: EnvSpec,
    env_arguments: dict[str, Any],
    state: PlainState,
    slices: Arrays,
    where: dict[str, Any],
) -> None:
    """Writes the file.

    Args:
        state: of the actor's environments before the rollout; its "env" is None where it could not be saved.
        slices: the actor's slices of the rollout, [T(+1), K, ...].
        where: `stage`, `env` (index in the actor), `step` (from 1), `column` and `value` of the first bad value.
    """
    step, own = int(where["step"]), int(where["env"])
    actions = env.action.to_env(slices["act"][:step])
    first = max(0, step - NUM_KEPT)
    content = {
        "evidence": 1,
        "where": where,
        "env_arguments": env_arguments,
        "env_state": state["env"],
        "actions": actions,
        **{f"last_{name}": array[first : step + 1, own] for name, array in slices.items()},
    }
    save_plain(path, content)


def replay_evidence(path: Path) -> str:
    """Drives the environments to the bad value again and says what came.

    Raises:
        CheckpointError: not such a file, or the environments' state could not be saved.
    """
    content = load_plain(path)
    if not isinstance(content, dict) or content.get("evidence") != 1:
        raise CheckpointError(f"{path}: not a file of evidence")
    where, actions = content["where"], content["actions"]
    if content["env_state"] is None:
        raise CheckpointError(
            f"{path}: this environment cannot be set to a saved state; the file's last_* arrays remain"
        )
    env = make_batch_env(num_envs=actions.shape[1], **content["env_arguments"])
    obs = env.restore(content["env_state"])
    lines = [f"recorded: {where['stage']} of environment {where['env']} is {where['value']} in step {where['step']}"]
    for step, action in enumerate(actions, 1):
        result = env.step(action)
        obs, reward = result.obs[where["env"]], result.reward[where["env"]]
        if not (np.isfinite(obs).all() and np.isfinite(reward)):
            columns = np.flatnonzero(~np.isfinite(obs)).tolist()
            lines.append(f"replayed: step {step}: reward {reward}, observation not finite in columns {columns}")
            break
    else:
        lines.append(f"replayed: {len(actions)} steps, every observation and reward is finite")
    env.close()
    return "\n".join(lines)
