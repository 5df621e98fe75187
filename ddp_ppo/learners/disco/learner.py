"""The DiscoRL learner of one process: a rollout in, replayed updates of the agent, metrics out.

It never communicates: what must be averaged over learners it hands to a function. Truncation counts as the end of an
episode, as the rule knows no other; the first step of an episode is not trained on, as published.

Shapes: T transitions, B environments, A actions, D observation size, P parameters.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ddp_ppo.config.settings import Config
from ddp_ppo.learners.disco import rule
from ddp_ppo.learners.disco.agent import Agent, acting_parameters, run, run_online
from ddp_ppo.learners.disco.batch import BothHeads, Trajectories
from ddp_ppo.learners.disco.meta_network import MetaNetwork
from ddp_ppo.learners.disco.optimizer import clipped_adam, fresh_optimizer
from ddp_ppo.learners.disco.replay import ReplayBuffer
from ddp_ppo.learners.interface import Common
from ddp_ppo.maths.moments import RmsState
from ddp_ppo.maths.seeding import Purpose, stream
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.policies.normalizer import Normalizer
from ddp_ppo.protocols import FloatArray
from ddp_ppo.sampling.finite import NonFiniteError
from ddp_ppo.sampling.rollout import Field, Rollout

_TARGET_RATE = 0.1  # of the way that target parameters go towards the online ones in an update
MEASURED = ("loss", *(f"{name}_loss" for name in rule.LossTerms._fields), "entropy", "value", "td_error", "grad_norm")


class DiscoLearner:
    """Everything that lives as long as the agent: parameters, optimizer, the rule's state and the replay buffer."""

    is_drifting = False  # learners average inside the step and are equal after it

    def __init__(
        self,
        config: Config,
        agent: Agent,
        *,
        meta: MetaNetwork,
        average: Callable[[Tensor], None] = lambda tensor: None,
        rank: int = 0,
    ) -> None:
        """Trains the agent where its parameters lie.

        Args:
            agent: on the device of `meta`.
            average: replaces a tensor by its mean over all learners, in place; called three times an update.
            rank: among the learners; each samples its replay buffer in an order of its own.
        """
        self.config = config
        self.agent = agent
        self.network = agent.spec.acting_network
        self.target = Agent(agent.spec, agent.flat.clone(), is_trained=False)
        self.optimizer = fresh_optimizer(agent.flat)
        self.state = rule.birth(meta)
        self.replay = ReplayBuffer(config.disco.replay_capacity, meta.device)
        self.learning_rate = config.learning_rate
        self._meta = meta
        self._average = average
        self._rank = rank
        self.normalize_with(None)
        self._has_ended = torch.zeros(0, dtype=torch.bool)  # [B]: the last rollout's last step ended an episode

    @staticmethod
    def rollout_fields(network: NetworkSpec) -> tuple[Field, ...]:
        """What a rollout must hold for this learner, [T(+1), B, ...]."""
        return (
            Field("obs", "float32", (network.obs_size,), extra_rows=1),
            Field("act", "int64"),
            Field("reward", "float32"),
            Field("terminated", "bool"),
            Field("truncated", "bool"),
            Field("final_obs", "float32", (network.obs_size,)),
            Field("logits", "float32", (network.action_size,)),  # of the policy that acted
        )

    def train_step(
        self, updates: Rollout, *, round_index: int = 0, done: float = 0.0
    ) -> tuple[dict[str, Tensor], dict[str, float]]:
        """Adds a rollout to the replay buffer, trains on samples of it and clears the rollout.

        Args:
            updates: T consecutive steps that follow those of the rollout before; all observations, replayed ones too,
                are normalised with what it says of itself.
            round_index: 0-based, for the sampling.
            done: part of the run before this round, in [0, 1), for the learning-rate schedule.

        Returns:
            What is common to all learners, and the round's metrics; NaN until the replay buffer holds a batch.

        Raises:
            NonFiniteError: a gradient is not finite; no step was taken with it.
        """
        config, buffer_size = self.config, updates.buffer_size
        if buffer_size == 0:
            raise ValueError("train_step needs a filled rollout; this one has been trained on already")
        if config.learning_rate_schedule == "linear":
            self.learning_rate = config.learning_rate * (1.0 - done)
        started = time.perf_counter()
        self.normalize_with(updates.normalization.obs_rms_state)
        fresh = self._trajectories(updates)
        if config.disco.replay_capacity:
            self.replay.add(fresh)
        transfer_seconds = time.perf_counter() - started
        steps = [self.update(batch) for batch in self._batches(fresh, round_index)]
        updates.clear()
        means = torch.stack(steps).mean(0).tolist() if steps else [math.nan] * len(MEASURED)
        return self.common().tensors, {
            "buffer_size": float(buffer_size),
            **{f"train/{name}": mean for name, mean in zip(MEASURED, means, strict=True)},
            "train/learning_rate": self.learning_rate,
            "train/gradient_steps": float(len(steps)),
            "train/replay_size": float(len(self.replay)),
            "time/transfer_seconds": transfer_seconds,
        }

    def _trajectories(self, updates: Rollout) -> Trajectories:
        """A rollout as the rule reads it, on its device."""
        device = self._meta.device
        obs, act, logits, reward = (torch.from_numpy(updates[n]).to(device) for n in ("obs", "act", "logits", "reward"))
        ended = torch.from_numpy(updates["terminated"] | updates["truncated"])
        has_ended = self._has_ended if len(self._has_ended) == ended.shape[1] else torch.zeros_like(ended[0])
        self._has_ended = ended[-1]
        mask = ~torch.cat([has_ended[None], ended[:-1]])
        scaled = reward * updates.normalization.reward_scale
        return Trajectories(obs, act, logits, scaled, ended.to(device), mask.to(device))

    def _batches(self, fresh: Trajectories, round_index: int) -> list[Trajectories]:
        """What this round trains on: samples of the replay buffer, or the rollout itself where there is none."""
        settings = self.config.disco
        if not settings.replay_capacity:
            return [fresh] * settings.updates_per_round
        if len(self.replay) < settings.batch_size:
            return []
        generator = stream(self.config.seed, Purpose.SHUFFLE, self._rank, round_index)
        index = generator.integers(len(self.replay), size=(settings.updates_per_round, settings.batch_size))
        return [self.replay.sample(torch.from_numpy(row)) for row in index]

    def update(self, batch: Trajectories) -> Tensor:
        """One step of the agent, its target network and the rule's state; returns what is MEASURED as one tensor."""
        obs = ((batch.obs - self._obs_mean) * self._obs_inv_std).clamp(-self._obs_clip, self._obs_clip)
        online, taken = run_online(self.agent, obs, batch.act)
        with torch.no_grad():
            heads = BothHeads(online, run(self.target, obs))
        targets, values, state = rule.make_targets(
            self._meta, self.state, heads=heads, batch=batch, config=self.config, average=self._average
        )
        terms = rule.losses(taken, targets, next_logits=online.logits[1:], q_target=values.q_target, ended=batch.ended)
        total = rule.total_loss(terms, batch.mask)
        gradients = torch.autograd.grad(total, self.agent.parameters)
        gradient = torch.cat([each.flatten() for each in gradients])
        self._average(gradient)
        grad_norm = torch.linalg.vector_norm(gradient)
        if not grad_norm.isfinite():
            raise NonFiniteError(f"the gradient norm of an update is {grad_norm.item()}; no step was taken with it")
        self.state = state
        self.target.flat.lerp_(self.agent.flat, _TARGET_RATE)
        clipped_adam(self.agent.flat, gradient, self.optimizer, self.learning_rate)
        with torch.no_grad():
            log_pi = online.logits[:-1].log_softmax(-1)
            entropy = -(log_pi.exp() * log_pi).sum(-1).mean()
            means = [each.mean() for each in terms]
            return torch.stack([total.detach(), *means, entropy, values.q_value.mean(), values.q_td.mean(), grad_norm])

    def normalize_with(self, state: RmsState | None) -> None:
        """Normalises all observations of an update with these statistics; None is the agent's scale alone."""
        normalizer = Normalizer(self.agent.spec.obs_size, scale=self.agent.spec.obs_scale)
        normalizer.load(state)
        self._obs_mean = torch.from_numpy(normalizer.mean).to(self._meta.device)
        self._obs_inv_std = torch.from_numpy(normalizer.inv_std).to(self._meta.device)
        self._obs_clip = float(normalizer.clip)

    def sample_losses(self, updates: Rollout) -> dict[str, Tensor]:
        """Nothing: an update mixes samples of many rollouts."""
        return {}

    def acting_parameters(self) -> FloatArray:
        """What actors act with: parameters [P] of `network`."""
        return acting_parameters(self.agent.spec, self.agent.flat.cpu().numpy())

    def common(self) -> Common:
        """What is the same on all learners after every update."""
        optimizer, moments = self.optimizer, self.state.moments
        averaged = {
            "agent": self.agent.flat,
            "target": self.target.flat,
            "exp_avg": optimizer.exp_avg,
            "exp_avg_sq": optimizer.exp_avg_sq,
            "rnn_hidden": self.state.rnn.hidden,
            "rnn_cell": self.state.rnn.cell,
            **moments._asdict(),
        }
        return Common(averaged, {"step": optimizer.step})

    def state_dict(self) -> dict[str, Any]:
        """Everything that training goes on from, as tensors and plain values; "parameters" are those that act."""
        return {
            "parameters": torch.from_numpy(self.acting_parameters()),
            **{name: tensor.cpu().clone() for name, tensor in self.common().tensors.items()},
            "learning_rate": self.learning_rate,
            "has_ended": self._has_ended.clone(),
            "replay": self.replay.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> Sequence[str]:
        """Continues from a state dict, whose tensors may be NumPy arrays; there is never anything to say of it.

        Raises:
            KeyError: a part is missing.
            ValueError: the parameters are of another agent.
        """
        if state["agent"].shape != self.agent.flat.shape:
            raise ValueError(
                f"the checkpoint has {len(state['agent'])} parameters, this agent {self.agent.spec.num_parameters}"
            )
        for name, tensor in self.common().tensors.items():
            tensor.copy_(torch.as_tensor(state[name]))
        self.learning_rate = float(state["learning_rate"])
        self._has_ended = torch.as_tensor(state["has_ended"]).clone()
        self.replay.load_state_dict({name: torch.as_tensor(array) for name, array in state["replay"].items()})
        return []
