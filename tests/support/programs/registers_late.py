"""A user's script that registers environments where actors do not see it, below the guard, and trains them."""

import sys
from pathlib import Path

import gymnasium

import ddp_ppo
from ddp_ppo.errors import EnvError
from tests.support.script_env import ScriptEnv


class Late(ScriptEnv):
    """Known to this script alone."""


class Top(ScriptEnv):
    """Registered on top, where actors see it."""


gymnasium.register("Top-v0", Top, max_episode_steps=9)
if __name__ == "__main__":
    gymnasium.register("Late-v0", Late)
    gymnasium.register("Imported-v0", ScriptEnv)
    gymnasium.register("CartPole-v1", ScriptEnv)
    small = {"num_actors": 1, "envs_per_actor": 1, "rollout_length": 16, "total_env_steps": 16, "eval_episodes": 1}
    for env_id in ("Late-v0", "__main__:Late-v0", "Imported-v0", "CartPole-v1", "Top-v0"):
        try:
            run = ddp_ppo.train("smoke", env_id=env_id, output_dir=sys.argv[1], run_name=env_id[-6:], **small)
            print(env_id, "rounds", run.rounds)
        except EnvError as error:
            print(f"{error}, {len(list(Path(sys.argv[1]).glob('*')))} files")
