"""An environment of which every piece of behaviour can be replaced, registered as `envs/Script-v0` and so on."""

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import ClipReward, TimeLimit

from ddp_ppo.envs.build import make_batch_env

STATE_BOX = spaces.Box(-np.inf, np.inf, (1,), np.float32)


class ScriptEnv(gymnasium.Env):
    """Counts its steps; every piece of behaviour can be replaced. Observation: steps of the episode + 10 * episode."""

    def __init__(self, *, observation_space=STATE_BOX, action_space=None, reward=None, obs=None, ends=None):
        self.observation_space = observation_space
        self.action_space = action_space or spaces.Discrete(2)
        self.reward = reward or (lambda env, action: 1.0)
        self.obs = obs or (lambda env: np.array([env.num_steps + 10 * env.num_episodes]))
        self.ends = ends or (lambda env: (False, False))
        self.num_steps = self.num_episodes = self.total_steps = 0
        self.seeds, self.actions = [], []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.num_steps = 0
        self.num_episodes += 1
        return self.obs(self), {}

    def step(self, action):
        self.actions.append(action)
        self.num_steps += 1
        self.total_steps += 1
        return self.obs(self), self.reward(self, action), *self.ends(self), {}


class BrokenEnv(ScriptEnv):
    def __init__(self, fail_at=None, num=40):
        if fail_at is None:
            raise RuntimeError("no licence")
        super().__init__(ends=lambda env: (env.num_steps == 7, False))
        self.fail_at, self.num = fail_at, num

    def step(self, action):
        if self.fail_at == "step" and action == 1:
            raise ValueError("boom-17")
        return super().step(action)

    def reset(self, *, seed=None, options=None):
        if self.fail_at == "reset" and seed is None:
            raise KeyError("no map")
        return super().reset(seed=seed)


class CheckpointedEnv(ScriptEnv):
    """Offers get_state and set_state; draws from its own generator in every step."""

    def __init__(self, extra=None):
        super().__init__(ends=lambda env: (env.num_steps == 5, False))
        self.obs = lambda env: env.np_random.random(1) + env.num_steps
        self.extra = extra

    def get_state(self):
        return {"num_steps": self.num_steps, "extra": self.extra}

    def set_state(self, state):
        self.num_steps = state["num_steps"]


gymnasium.register("envs/Script-v0", ScriptEnv)
gymnasium.register("envs/Script500-v0", ScriptEnv, max_episode_steps=500)
gymnasium.register("envs/InnerLimit-v0", lambda: ClipReward(TimeLimit(ScriptEnv(), 20), 0, 1))
gymnasium.register("envs/OuterLimit-v0", lambda: TimeLimit(ScriptEnv(), 20))
gymnasium.register("envs/Broken-v0", BrokenEnv)
gymnasium.register("envs/Checkpointed-v0", CheckpointedEnv)
gymnasium.register("envs/WrappedCartPole-v0", lambda: ClipReward(gymnasium.make("CartPole-v1"), 0, 1))


def script(num_envs=1, *, env_id="envs/Script-v0", max_episode_steps=None, **env_kwargs):
    """A batch of them."""
    return make_batch_env(env_id, num_envs, env_kwargs=env_kwargs, max_episode_steps=max_episode_steps)


def inner(env, index=0):
    """One environment of a batch."""
    return env.gymnasium_env(index)


def discrete(*actions):
    """Actions of a batch."""
    return np.array(actions, np.int64)
