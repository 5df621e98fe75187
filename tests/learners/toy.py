"""A learner from outside of the package, in this file alone: REINFORCE with momentum, `tests.learners.toy:KIND`.

Shapes: T rollout_length, B environments of the learner, N = T * B samples, P parameters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ddp_ppo.config.setting import setting
from ddp_ppo.learners.interface import Common, LearnerKind
from ddp_ppo.policies.network import NetworkSpec, hold_log_std
from ddp_ppo.policies.torch_policy import ActorCritic
from ddp_ppo.sampling.rollout import Field


@dataclass(frozen=True, kw_only=True)
class ToySettings:
    """What it can be told."""

    momentum: float = setting(0.9, low=0, high=1, doc="Part of a step that is taken again in the next one.")


def rollout_fields(network):
    """What actors write, and the return from each step on."""
    act = network.distribution
    return (
        Field("obs", "float32", (network.obs_size,), extra_rows=1),
        Field("act", act.act_dtype, act.act_shape),
        Field("reward", "float32"),
        Field("terminated", "bool"),
        Field("truncated", "bool"),
        Field("final_obs", "float32", (network.obs_size,)),
        Field("ret", "float32"),
    )


def annotate(policy, slices, discounting):
    """The discounted return [T, K] of the rest of an episode in the rollout."""
    following = np.zeros(slices["reward"].shape[1])
    for step in reversed(range(len(slices["reward"]))):
        ended = slices["terminated"][step] | slices["truncated"][step]
        following = slices["reward"][step] + discounting.gamma * np.where(ended, 0.0, following)
        slices["ret"][step] = following


class Toy:
    """One step along the gradient of log-probability times return after each rollout."""

    is_drifting = True

    def __init__(self, config, network, parameters):
        self.network = network
        self.learning_rate = config.learning_rate
        self._momentum = config.section.momentum
        self._policy = ActorCritic(network, torch.tensor(parameters))
        self._velocity = torch.zeros(len(parameters))
        self._num_steps = torch.zeros(())

    def train_step(self, updates, *, round_index=0, done=0.0):
        """See `Learner`."""
        self._policy.load_obs_rms_state(updates.normalization.obs_rms_state)
        metrics = {"buffer_size": float(updates.buffer_size), "train/learning_rate": self.learning_rate}
        obs, act, ret = (torch.from_numpy(updates[name]) for name in ("obs", "act", "ret"))
        logp, _, _ = self._policy.evaluate(self._policy.normalize(obs[:-1].flatten(0, 1)), act.flatten(0, 1))
        loss = -(logp * ((ret - ret.mean()) / (ret.std() + 1e-8)).flatten()).mean()
        (gradient,) = torch.autograd.grad(loss, self._policy.flat)
        self._velocity.mul_(self._momentum).add_(gradient)
        self._policy.flat.data.sub_(self.learning_rate * self._velocity)
        hold_log_std(self.network, self._policy.flat.data)
        self._num_steps += 1
        updates.clear()
        return self.state_dict(), {**metrics, "train/gradient_steps": 1.0, "train/toy_loss": float(loss.detach())}

    def acting_parameters(self):
        """See `Learner`."""
        return self._policy.flat.data.numpy().copy()

    def common(self):
        """See `Learner`."""
        return Common(
            {"parameters": self._policy.flat.data, "velocity": self._velocity}, {"num_steps": self._num_steps}
        )

    def sample_losses(self, updates):
        """See `Learner`."""
        return {}

    def state_dict(self):
        """See `Learner`."""
        return {name: tensor.clone() for name, tensor in self.common().tensors.items()}

    def load_state_dict(self, state):
        """See `Learner`."""
        for name, tensor in self.common().tensors.items():
            tensor.copy_(torch.as_tensor(state[name]))
        return ()


KIND = LearnerKind(
    name="toy",
    settings=ToySettings,
    network=lambda config, env: NetworkSpec.for_env(env, config.hidden_sizes, config.activation),
    rollout_fields=rollout_fields,
    annotate=annotate,
    make=lambda job, workplace: Toy(job.config, job.network, workplace.start.parameters),
)
