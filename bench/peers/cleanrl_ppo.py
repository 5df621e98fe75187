"""A loop in the manner of CleanRL's ppo_continuous_action, written anew: one page, eager torch, Gymnasium wrappers.

`train` takes any vector of environments, so that the EnvPool peer is the same loop.
Shapes: T rollout_length, B environments, D observation, A action.
"""

from functools import partial

import gymnasium
import numpy as np
import torch
from torch import nn
from torch.distributions import Normal
from workload import Stopwatch, Work, make_env, parse


class Agent(nn.Module):
    """Separate actor and critic with orthogonal initialisation and a log standard deviation for each action."""

    def __init__(self, num_obs: int, num_actions: int, hidden_sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.critic = _mlp(num_obs, hidden_sizes, 1, gain=1.0)
        self.actor = _mlp(num_obs, hidden_sizes, num_actions, gain=0.01)
        self.log_std = nn.Parameter(torch.zeros(1, num_actions))

    def forward(self, obs, act=None):
        """Action (drawn where none is given), its log-probability, the entropy and the value."""
        mean = self.actor(obs)
        distribution = Normal(mean, self.log_std.expand_as(mean).exp())
        act = distribution.sample() if act is None else act
        return act, distribution.log_prob(act).sum(1), distribution.entropy().sum(1), self.critic(obs)


def _mlp(num_inputs: int, hidden_sizes: tuple[int, ...], num_outputs: int, gain: float) -> nn.Sequential:
    layers: list[nn.Module] = []
    for size in hidden_sizes:
        layers += [_linear(num_inputs, size, 2**0.5), nn.Tanh()]
        num_inputs = size
    return nn.Sequential(*layers, _linear(num_inputs, num_outputs, gain))


def _linear(num_inputs: int, num_outputs: int, gain: float) -> nn.Linear:
    layer = nn.Linear(num_inputs, num_outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def train(envs, work: Work, stopwatch: Stopwatch) -> None:
    """Trains on `envs.reset(seed=...)` and `envs.step(action)`, which resets what has ended."""
    torch.set_num_threads(work.threads)
    torch.manual_seed(work.seed)
    np.random.seed(work.seed)
    num_obs, num_actions = envs.single_observation_space.shape[0], envs.single_action_space.shape[0]
    agent = Agent(num_obs, num_actions, work.hidden_sizes)
    optimizer = torch.optim.Adam(agent.parameters(), lr=work.learning_rate, eps=work.adam_eps)
    size = (work.rollout_length, work.num_envs)
    obs, act = torch.zeros((*size, num_obs)), torch.zeros((*size, num_actions))  # [T, B, D], [T, B, A]
    logp, reward, done, value = torch.zeros(size), torch.zeros(size), torch.zeros(size), torch.zeros(size)  # [T, B]
    first_obs, _ = envs.reset(seed=work.seed)
    next_obs, next_done = torch.tensor(first_obs, dtype=torch.float32), torch.zeros(work.num_envs)
    for _ in range(work.num_rounds):
        for step in range(work.rollout_length):
            obs[step], done[step] = next_obs, next_done
            with torch.no_grad():
                act[step], logp[step], _, new_value = agent(next_obs)
                value[step] = new_value.flatten()
            numpy_obs, numpy_reward, terminated, truncated, _ = envs.step(act[step].numpy())
            reward[step] = torch.tensor(numpy_reward)
            next_obs = torch.tensor(numpy_obs, dtype=torch.float32)
            next_done = torch.tensor(np.logical_or(terminated, truncated), dtype=torch.float32)
        with torch.no_grad():
            adv = _advantages(reward, value, done, agent.critic(next_obs).flatten(), next_done, work)
        batch = tuple(array.flatten(0, 1) for array in (obs, act, logp, adv, adv + value, value))
        _update(agent, optimizer, batch, work)
        stopwatch.round_ended()


def _advantages(reward, value, done, next_value, next_done, work: Work):
    adv, last = torch.zeros_like(reward), torch.zeros_like(next_value)
    for step in reversed(range(work.rollout_length)):
        alive = 1.0 - next_done
        delta = reward[step] + work.gamma * next_value * alive - value[step]
        adv[step] = last = delta + work.gamma * work.gae_lambda * alive * last
        next_value, next_done = value[step], done[step]
    return adv


def _update(agent: Agent, optimizer, batch, work: Work) -> None:
    order, clip_fractions = np.arange(work.samples), []
    for _ in range(work.num_epochs):
        np.random.shuffle(order)
        for start in range(0, work.samples, work.minibatch_size):
            obs, act, logp, adv, ret, value = (a[order[start : start + work.minibatch_size]] for a in batch)
            _, new_logp, entropy, new_value = agent(obs, act)
            log_ratio = new_logp - logp
            ratio = log_ratio.exp()
            with torch.no_grad():
                ((ratio - 1) - log_ratio).mean()  # approximate KL divergence
                clip_fractions.append(((ratio - 1.0).abs() > work.clip_range).float().mean().item())
            adv = (adv - adv.mean()) / (adv.std() + 1e-8)
            clipped = ratio.clamp(1 - work.clip_range, 1 + work.clip_range)
            policy_loss = torch.max(-adv * ratio, -adv * clipped).mean()
            new_value = new_value.view(-1)
            clipped_value = value + (new_value - value).clamp(-work.clip_range, work.clip_range)
            value_loss = 0.5 * torch.max((new_value - ret) ** 2, (clipped_value - ret) ** 2).mean()
            loss = policy_loss - 0.0 * entropy.mean() + work.value_coef * value_loss
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), work.max_grad_norm)
            optimizer.step()


def _wrapped(stopwatch: Stopwatch, work: Work) -> gymnasium.Env:
    env = gymnasium.wrappers.ClipAction(gymnasium.wrappers.FlattenObservation(make_env(stopwatch)))
    env = gymnasium.wrappers.NormalizeObservation(env)
    env = gymnasium.wrappers.TransformObservation(env, lambda obs: np.clip(obs, -work.clip, work.clip), None)
    env = gymnasium.wrappers.NormalizeReward(env, gamma=work.gamma)
    return gymnasium.wrappers.TransformReward(env, lambda reward: np.clip(reward, -work.clip, work.clip))


if __name__ == "__main__":
    work = parse(num_envs=1)
    stopwatch = Stopwatch(work)
    make = partial(_wrapped, stopwatch, work)
    mode = gymnasium.vector.AutoresetMode.SAME_STEP
    train(gymnasium.vector.SyncVectorEnv([make] * work.num_envs, autoreset_mode=mode), work, stopwatch)
    stopwatch.report("gymnasium", "mujoco")
