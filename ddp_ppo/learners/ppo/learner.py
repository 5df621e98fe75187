"""Proximal policy optimisation (Schulman et al. 2017): one round's rollout in, new parameters and metrics out.

A learner never communicates: what must be averaged over learners inside a step it receives as functions. The gradient
of a mini-batch comes from an `Update`; `TorchUpdate` is the definition, `NumpyUpdate` the fast one.

Shapes: T rollout_length, B environments, N = T * B samples, n samples of a mini-batch, D observation size, A action
size, P parameters.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ddp_ppo.config.settings import Config
from ddp_ppo.learners.adam_state import AdamState
from ddp_ppo.learners.interface import Common
from ddp_ppo.learners.ppo.loss import Batch, sample_losses
from ddp_ppo.learners.ppo.loss_settings import loss_settings
from ddp_ppo.learners.ppo.updates.critic_worker import NO_TEAM, Team
from ddp_ppo.learners.ppo.updates.cuda_graphs import captured_on
from ddp_ppo.learners.ppo.updates.numpy_epoch import Trained
from ddp_ppo.learners.ppo.updates.numpy_update import NumpyUpdate
from ddp_ppo.learners.ppo.updates.torch_update import TorchUpdate, step_by_step
from ddp_ppo.learners.ppo.updates.update import EpochStats, Update
from ddp_ppo.maths.gae import compute_gae
from ddp_ppo.maths.seeding import Purpose, stream
from ddp_ppo.policies.network import NetworkSpec, hold_log_std
from ddp_ppo.policies.torch_policy import ActorCritic
from ddp_ppo.protocols import FloatArray
from ddp_ppo.sampling.rollout import REWARD_CLIP, Field, Rollout, scale_reward

_ADAPTIVE_FACTOR, _ADAPTIVE_MIN, _ADAPTIVE_MAX = 1.5, 1e-6, 1e-2


class Averaging(NamedTuple):
    """How several learners decide together inside a step; the default is a learner on its own."""

    gradient: Callable[[Tensor], None] = lambda gradient: None  # averages a flat gradient [P] in place
    scalar: Callable[[float], float] = lambda value: value
    is_per_minibatch: bool = False  # gradients are averaged, so every learner takes the same number of steps


def fresh(parameters: NDArray[np.float32]) -> Trained:
    """These parameters [P], with Adam at its beginning."""
    return Trained(parameters, np.zeros_like(parameters), np.zeros_like(parameters), np.zeros((), np.float32))


ALONE = Averaging()


class PPO:
    """The PPO learner of one process."""

    def __init__(
        self,
        config: Config,
        network: NetworkSpec,
        trained: Trained,
        *,
        device: torch.device,
        averaging: Averaging = ALONE,
        team: Team = NO_TEAM,
        rank: int = 0,
    ) -> None:
        """Trains `trained` where it lies if the device is a CPU, a copy of it on any other device."""
        self.config = config
        self.network = network
        self.device = device
        vectors = [torch.from_numpy(array).to(device) for array in vars(trained).values()]
        self.policy = ActorCritic(network, vectors[0])
        self.optimizer = AdamState(*vectors[1:])
        self.learning_rate = config.learning_rate
        self.is_drifting = not averaging.is_per_minibatch
        self._averaging = averaging
        self._rank = rank
        self._update = self._make_update(team)

    def _make_update(self, team: Team) -> Update:
        config = self.config
        settings = loss_settings(config)
        backend = resolve_update_backend(config, self.device.type)
        average = self._averaging.gradient
        if backend == "numpy":
            return NumpyUpdate(self.policy, self.optimizer, settings, average, team)
        is_captured = captures_steps(config, self.device.type, self._averaging)
        accelerate = captured_on(self.device) if is_captured else step_by_step
        return TorchUpdate(self.policy, self.optimizer, settings, average, accelerate)

    @staticmethod
    def rollout_fields(network: NetworkSpec) -> tuple[Field, ...]:
        """What a rollout must hold for this learner, [T(+1), B, ...]."""
        head = network.distribution
        return (
            Field("obs", "float32", (network.obs_size,), extra_rows=1),
            Field("act", head.act_dtype, head.act_shape),
            Field("reward", "float32"),
            Field("terminated", "bool"),
            Field("truncated", "bool"),
            Field("final_obs", "float32", (network.obs_size,)),
            Field("logp", "float32"),
            Field("value", "float32", extra_rows=1),
            Field("final_value", "float32"),
            Field("adv", "float32"),
            Field("ret", "float32"),
        )

    def train_step(
        self, updates: Rollout, *, round_index: int = 0, done: float = 0.0
    ) -> tuple[dict[str, Tensor], dict[str, float]]:
        """Trains on the complete on-policy buffer and clears it.

        Args:
            updates: this round's annotated rollout, which says what it was normalised with.
            round_index: 0-based, for the order of the samples.
            done: part of the run before this round, in [0, 1), for the learning-rate schedule.

        Returns:
            The policy's state dict and the round's metrics.
        """
        config = self.config
        buffer_size = updates.buffer_size
        if buffer_size == 0:
            raise ValueError("train_step needs a filled rollout; this one has been trained on already")
        if config.learning_rate_schedule == "linear":
            self.learning_rate = config.learning_rate * (1.0 - done)
        started = time.perf_counter()
        batch = self._load(updates)
        transfer_seconds = time.perf_counter() - started
        value, ret = torch.from_numpy(updates["value"][:-1]), torch.from_numpy(updates["ret"])
        value_explained = explained_variance(value, ret)  # on the CPU, while the device is busy
        epochs = self._update.run(lambda: self._run_epochs(updates, batch, round_index))
        metrics = self._metrics(epochs, buffer_size)
        metrics["train/explained_variance"] = value_explained
        metrics["time/transfer_seconds"] = transfer_seconds
        if config.learning_rate_schedule == "adaptive":
            self._adapt_learning_rate(self._averaging.scalar(epochs[-1].approx_kl))
        updates.clear()
        return self.policy.state_dict(), metrics

    def _run_epochs(self, updates: Rollout, batch: Batch, round_index: int) -> list[EpochStats]:
        """The epochs of a round until the last one or a KL stop; called again, it does the same again."""
        config = self.config
        self._update.load(batch)
        generator = stream(config.seed, Purpose.SHUFFLE, self._rank, round_index)
        num_samples = len(batch.adv)
        epochs: list[EpochStats] = []
        for epoch in range(config.ppo.num_epochs):
            if epoch and config.ppo.recompute_advantages:
                batch = self._recompute_advantages(updates, batch)
                self._update.load(batch)
            order = updates.shuffled(1, generator)[0]
            epochs.append(self._update.epoch(order, min(config.ppo.minibatch_size, num_samples), self.learning_rate))
            hold_log_std(self.network, self.policy.flat.data)
            if self._is_kl_reached(epochs[-1].approx_kl):
                break
        return epochs

    def _load(self, updates: Rollout) -> Batch:
        """The samples on the device, each array copied there once; from page-locked memory nothing waits for it."""
        self.policy.load_obs_rms_state(updates.normalization.obs_rms_state)
        with torch.no_grad():
            obs, act, logp, adv, ret, value = (
                torch.from_numpy(updates[name]).to(self.device, non_blocking=True)
                for name in ("obs", "act", "logp", "adv", "ret", "value")
            )
            num_samples = adv.numel()
            return Batch(
                self.policy.stored(obs[:-1].reshape(num_samples, -1)),
                act.reshape(num_samples, *act.shape[2:]),
                logp.reshape(-1),
                self._standardized(adv.reshape(-1), ret),
                ret.reshape(-1),
                value[:-1].reshape(-1),
            )

    @torch.no_grad()
    def sample_losses(self, updates: Rollout) -> dict[str, Tensor]:
        """What each sample [N] of a rollout adds to the loss with the parameters of now, without the entropy."""
        losses = sample_losses(self.policy, self._load(updates), loss_settings(self.config))
        return {"policy loss": losses.policy_loss, "value loss": losses.value_loss}

    def _standardized(self, adv: Tensor, ret: Tensor) -> Tensor:
        return standardize(adv, ret) if self.config.ppo.normalize_advantages else adv

    @torch.no_grad()
    def _recompute_advantages(self, updates: Rollout, batch: Batch) -> Batch:
        """Advantages and value targets with the critic as it is now (Andrychowicz et al. 2020, section 3.5)."""
        names = ("reward", "terminated", "truncated")
        reward, terminated, truncated, last_obs = (
            torch.from_numpy(array).to(self.device)
            for array in (*(updates[name] for name in names), updates["obs"][-1])
        )
        shape = reward.shape
        last_value = self.policy.critic(self.policy.normalize(last_obs))[None]
        value = torch.cat([self.policy.stored_values(batch.obs).reshape(shape), last_value])
        final_value = torch.zeros_like(reward)
        if bool(truncated.any()):
            final_obs = torch.from_numpy(updates["final_obs"][updates["truncated"]]).to(self.device)
            final_value[truncated] = self.policy.critic(self.policy.normalize(final_obs))
        clip = REWARD_CLIP if self.config.normalize_reward else float("inf")
        adv, ret = compute_gae(
            scale_reward(reward, updates.normalization.reward_scale, clip),
            value,
            final_value,
            terminated,
            truncated,
            gamma=self.config.gamma,
            gae_lambda=self.config.gae_lambda,
        )
        return batch._replace(adv=self._standardized(adv.reshape(-1), ret), ret=ret.reshape(-1))

    def _is_kl_reached(self, approx_kl: float) -> bool:
        if self.config.ppo.target_kl is None or self.config.learning_rate_schedule == "adaptive":
            return False
        kl = self._averaging.scalar(approx_kl) if self._averaging.is_per_minibatch else approx_kl
        return kl > self.config.ppo.target_kl

    def _adapt_learning_rate(self, kl: float) -> None:
        target = self.config.ppo.target_kl
        assert target is not None  # the configuration has been checked
        if kl > 2.0 * target:
            lower = max(self.learning_rate / _ADAPTIVE_FACTOR, _ADAPTIVE_MIN)
            self.learning_rate = min(self.learning_rate, lower)  # a rate below the bound stays
        elif kl < 0.5 * target:
            higher = min(self.learning_rate * _ADAPTIVE_FACTOR, _ADAPTIVE_MAX)
            self.learning_rate = max(self.learning_rate, higher)

    def _metrics(self, epochs: list[EpochStats], buffer_size: int) -> dict[str, float]:
        means = {f"train/{name}": float(np.mean([e[i] for e in epochs])) for i, name in enumerate(EpochStats._fields)}
        log_std = self.policy.flat.data[self.network.log_std_slice]
        steps_per_epoch = -(-buffer_size // self.config.ppo.minibatch_size)
        return {
            "buffer_size": float(buffer_size),
            **means,
            "train/approx_kl": epochs[-1].approx_kl,
            "train/learning_rate": self.learning_rate,
            "train/epochs": float(len(epochs)),
            "train/gradient_steps": float(len(epochs) * steps_per_epoch),
            "train/action_std": float(log_std.exp().mean()) if len(log_std) else float("nan"),
        }

    def acting_parameters(self) -> FloatArray:
        """A copy of the parameters [P]."""
        return np.array(self.policy.flat.data.cpu().numpy())

    def common(self) -> Common:
        """What learners hold in common after a sync: the parameters, Adam's moments and its number of steps.

        The moments are averaged too: kept local they would push each learner away from the average again, and learners
        would not be equal after a sync.
        """
        optimizer = self.optimizer
        moments = {"exp_avg": optimizer.exp_avg, "exp_avg_sq": optimizer.exp_avg_sq}
        return Common({"parameters": self.policy.flat.data, **moments}, {"step": optimizer.step})

    def state_dict(self) -> dict[str, Any]:
        """Everything that training goes on from, as tensors and plain values."""
        common = {name: tensor.cpu().clone() for name, tensor in self.common().tensors.items()}
        return {**common, "step": float(self.optimizer.step), "learning_rate": self.learning_rate}

    def load_state_dict(self, state: Mapping[str, Any]) -> Sequence[str]:
        """Continues from a state dict, whose tensors may be NumPy arrays; a line if log_std had left its range.

        Raises:
            KeyError: a part is missing.
            ValueError: the parameters are of another network.
        """
        if state["parameters"].shape != self.policy.flat.shape:
            raise ValueError(
                f"the checkpoint has {len(state['parameters'])} parameters, this network {self.policy.flat.numel()}"
            )
        for name, tensor in self.common().tensors.items():
            tensor.copy_(torch.as_tensor(state[name]))
        self.learning_rate = float(state["learning_rate"])
        is_moved = hold_log_std(self.network, self.policy.flat.data)
        return ["log_std of the checkpoint was outside its range and has been brought back"] if is_moved else []


def resolve_update_backend(config: Config, device_type: str) -> str:
    """The backend of the gradient step: NumPy for an MLP on a CPU, torch elsewhere, or what the setting says."""
    if config.ppo.update_backend != "auto":
        return config.ppo.update_backend
    return "numpy" if device_type == "cpu" and not config.conv_channels else "torch"


def captures_steps(config: Config, device_type: str, averaging: Averaging) -> bool:
    """Whether gradient steps become CUDA graphs: not where learners meet inside one, nor where torch is asked for."""
    return device_type == "cuda" and config.ppo.update_backend == "auto" and not averaging.is_per_minibatch


def standardize(adv: Tensor, ret: Tensor) -> Tensor:
    """(adv - mean) / std over the whole buffer; zeros where all advantages are equal up to rounding.

    Rounding noise has the size of 1e-7 of the returns: dividing it by itself would amplify it to order 1.
    """
    centred = adv - adv.mean()
    std = centred.square().mean().sqrt()
    noise = 1e-6 * ret.abs().amax()
    return torch.where(std <= noise, torch.zeros_like(centred), centred / (std + 1e-8))  # NaN stays NaN


def explained_variance(value: Tensor, ret: Tensor) -> float:
    """1 - var(ret - value) / var(ret); NaN where the returns do not vary."""
    variance = ret.double().var(correction=0)
    if float(variance) <= 1e-12 * float(ret.double().square().mean()):
        return float("nan")
    return float(1.0 - (ret - value).double().var(correction=0) / variance)
