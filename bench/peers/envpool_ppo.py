"""The loop of `cleanrl_ppo` on EnvPool's environments, which C++ threads step; normalisation is array-wise in NumPy.

After an episode EnvPool spends one step on the reset and gives reward 0 for it.
"""

import os

import envpool
import numpy as np
from cleanrl_ppo import train
from workload import Stopwatch, Work, parse


class Moments:
    """Running mean and variance of the rows seen so far."""

    def __init__(self, size: int) -> None:
        self.mean, self.var, self.count = np.zeros(size), np.ones(size), 1e-4

    def update(self, rows: np.ndarray) -> None:
        """Merges these rows [B, size] (Chan et al. 1983)."""
        count = self.count + len(rows)
        delta = rows.mean(0) - self.mean
        squares = self.var * self.count + rows.var(0) * len(rows) + delta**2 * self.count * len(rows) / count
        self.mean, self.var, self.count = self.mean + delta * len(rows) / count, squares / count, count


class NormalizedEnvPool:
    """What the wrappers of `cleanrl_ppo` do for one environment, done here for all of them at once."""

    def __init__(self, work: Work, stopwatch: Stopwatch) -> None:
        threads = min(work.num_envs, len(os.sched_getaffinity(0)))
        self.envs = envpool.make(
            work.env_id, env_type="gymnasium", num_envs=work.num_envs, num_threads=threads, seed=work.seed
        )
        self.single_observation_space, self.single_action_space = self.envs.observation_space, self.envs.action_space
        self.work, self.stopwatch = work, stopwatch
        self.obs_moments, self.return_moments = Moments(self.envs.observation_space.shape[0]), Moments(1)
        self.discounted, self.sums = np.zeros(work.num_envs), np.zeros(work.num_envs)

    def reset(self, *, seed: int):
        """The first observations; the seed was given when the environments were made."""
        obs, info = self.envs.reset()
        return self._normalized(obs), info

    def step(self, action: np.ndarray):
        """Steps all environments with the clipped action."""
        obs, reward, terminated, truncated, info = self.envs.step(np.clip(action, -1.0, 1.0).astype(np.float64))
        done = terminated | truncated
        self.sums += reward
        self.stopwatch.returns += self.sums[done].tolist()
        self.sums[done] = 0.0
        self.discounted = self.discounted * self.work.gamma + reward
        self.return_moments.update(self.discounted[:, None])
        self.discounted[done] = 0.0
        scaled = reward / np.sqrt(self.return_moments.var + 1e-8)
        clip = self.work.clip
        return self._normalized(obs), np.clip(scaled, -clip, clip), terminated, truncated, info

    def _normalized(self, obs: np.ndarray) -> np.ndarray:
        self.obs_moments.update(obs)
        normalized = (obs - self.obs_moments.mean) / np.sqrt(self.obs_moments.var + 1e-8)
        return np.clip(normalized, -self.work.clip, self.work.clip)


work = parse(num_envs=2)
stopwatch = Stopwatch(work)
train(NormalizedEnvPool(work, stopwatch), work, stopwatch)
stopwatch.report("envpool")
