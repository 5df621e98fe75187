"""A policy with a memory: it counts the steps of the episode and alternates between two choices in runs of three.

Its parameters are those of an MLP, which it does not look at but for the critic's values; so PPO trains it as it is.
The rewards of `Rhythm-v0` tell whether the count is right.

Shapes: T rollout_length, K environments, S = 1.
"""

from __future__ import annotations

import gymnasium
import numpy as np

from ddp_ppo.policies.feedforward import rollout_values
from ddp_ppo.policies.numpy_policy import NumpyPolicy
from ddp_ppo.protocols import NO_STATE

RUN = 3


def choice_at(step: int) -> int:
    """The choice in a step of an episode, from 0."""
    return step // RUN % 2


class CountingPolicy:
    """See `Policy`; its samples are its modes."""

    state_size = 1

    def __init__(self, network, env, num_envs, num_steps):
        self._critic = NumpyPolicy(network, env, num_envs, num_steps)
        self.head = network.distribution
        self.outputs = np.zeros((num_steps, num_envs, network.action_size), np.float32)

    def load(self, parameters, obs_rms_state):
        """See `Policy`."""
        self._critic.load(parameters, obs_rms_state)

    def begin(self, generator):
        """There is no noise."""

    def act(self, step, obs, act, state=NO_STATE):
        """See `Policy`."""
        act[...] = self.mode(obs, state)
        self.outputs[step] = np.where(np.arange(2) == act[:, None], 5.0, -5.0)
        return act

    def mode(self, obs, state=NO_STATE):
        """See `Policy`."""
        choices = (state[:, 0].astype(np.int64) // RUN) % 2
        state += 1.0
        return choices

    def logp(self, act):
        """See `Policy`."""
        return self.head.logp(act, self.outputs, np.zeros(0, np.float32)).astype(np.float32)

    def rollout_values(self, slices):
        """See `Policy`."""
        return rollout_values(self._critic.values, slices)


class Rhythm(gymnasium.Env):
    """Observes the number of the step; the reward is 1 where the action is that of `choice_at`, else 0."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length=11):
        self.length, self.t = length, 0

    def reset(self, *, seed=None, options=None):
        """Starts an episode."""
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        """One step."""
        reward = float(action == choice_at(self.t))
        self.t += 1
        return np.full(1, self.t, np.float32), reward, self.t >= self.length, False, {}

    def get_state(self):
        """See `envs.state`."""
        return {"t": self.t}

    def set_state(self, state):
        """See `envs.state`."""
        self.t = state["t"]


gymnasium.register("Rhythm-v0", Rhythm, max_episode_steps=40)
