"""The actor-critic in torch: the definition that the NumPy paths are tested against, and what runs on a GPU.

It owns the normaliser, so the learner, the actors, the model file and every command use the same one. All methods of
`ActorCritic` take any leading dimensions. The policies here are feed-forward: they remember nothing.

Shapes: [..., D] observations, [..., A] Box actions or [...] choices, P parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ddp_ppo.maths.moments import RmsState
from ddp_ppo.observations.layout import columns_of
from ddp_ppo.policies.convolution import convolved
from ddp_ppo.policies.feedforward import rollout_values
from ddp_ppo.policies.network import TRUNKS, NetworkSpec, Trunk
from ddp_ppo.policies.normalizer import Normalizer
from ddp_ppo.protocols import NO_STATE, Arrays, EnvSpec, FloatArray

_BYTE_ROWS = 512  # observations of bytes that become float32 at a time
_ACTIVATIONS = {"tanh": torch.tanh, "relu": torch.relu, "elu": nn.functional.elu}


class Evaluation(NamedTuple):
    """What the PPO loss needs of a batch."""

    logp: Tensor  # [...]
    entropy: Tensor  # [...] or a scalar
    value: Tensor  # [...]


class ActorCritic(nn.Module):
    """A policy and its critic over one flat parameter vector [P], on the device where that lies."""

    def __init__(self, network: NetworkSpec, parameters: Tensor) -> None:
        super().__init__()
        self.network = network
        self.flat = nn.Parameter(parameters)
        self._distribution = network.distribution
        self._columns = {name: columns_of(network.view(name)) for name in TRUNKS}
        self.obs_mean: Tensor
        self.obs_inv_std: Tensor
        self.obs_clip: Tensor
        actor, critic = network.trunk("actor"), network.trunk("critic")
        self._num_actor_layers = len(actor)
        log_std = network.log_std_slice
        self._sizes = [
            *(layer.size for layer in actor),
            log_std.stop - log_std.start,
            *(layer.size for layer in critic),
        ]
        device = parameters.device
        self.register_buffer("obs_mean", torch.zeros(network.obs_size, device=device))
        self.register_buffer("obs_inv_std", torch.ones(network.obs_size, device=device))
        self.register_buffer("obs_clip", torch.tensor(float("inf"), device=device))

    def load_obs_rms_state(self, state: RmsState | None) -> None:
        """Freezes these statistics until the next call; None is the network's scale alone."""
        normalizer = Normalizer(self.network.obs_size, scale=self.network.obs_scale)
        normalizer.load(state)
        self.obs_mean.copy_(torch.from_numpy(normalizer.mean))
        self.obs_inv_std.copy_(torch.from_numpy(normalizer.inv_std))
        self.obs_clip.fill_(float(normalizer.clip))

    def normalize(self, obs: Tensor) -> Tensor:
        """Raw observations [..., D] as the networks read them."""
        return ((obs - self.obs_mean) * self.obs_inv_std).clamp(-self.obs_clip, self.obs_clip)

    def stored(self, obs: Tensor) -> Tensor:
        """Raw observations as an update keeps them: bytes as they are, a quarter of the memory; others normalised."""
        return obs if obs.dtype == torch.uint8 else self.normalize(obs)

    def seen(self, stored: Tensor) -> Tensor:
        """What an update has stored as the networks read it."""
        return self.normalize(stored) if stored.dtype == torch.uint8 else stored

    def stored_values(self, stored: Tensor) -> Tensor:
        """Values [N] of what an update has stored, [N, D]; of bytes only some are made float32 at a time."""
        parts = torch.split(stored, _BYTE_ROWS) if stored.dtype == torch.uint8 else (stored,)
        return torch.cat([self.critic(self.seen(part)) for part in parts])

    def actor(self, normalized_obs: Tensor) -> Tensor:
        """Means or logits [..., A]."""
        return self._trunk("actor", self._parts()[0], normalized_obs)

    def critic(self, normalized_obs: Tensor) -> Tensor:
        """Values [...]."""
        return self._trunk("critic", self._parts()[2], normalized_obs).squeeze(-1)

    def logp(self, act: Tensor, output: Tensor) -> Tensor:
        """log-probability [...] of act given the actor's output [..., A]."""
        log_std: Tensor = self.flat[self.network.log_std_slice]
        logp: Tensor = self._distribution.logp(act, output, log_std)
        return logp

    def evaluate(self, normalized_obs: Tensor, act: Tensor) -> Evaluation:
        """Everything that the loss needs, in one forward pass, for normalised observations and stored samples."""
        actor, log_std, critic = self._parts()
        output = self._trunk("actor", actor, normalized_obs)
        value = self._trunk("critic", critic, normalized_obs).squeeze(-1)
        return Evaluation(*self._distribution.evaluate(act, output, log_std), value)

    def _parts(self) -> tuple[list[Tensor], Tensor, list[Tensor]]:
        """The actor's blocks, log_std and the critic's blocks; one split has one gradient, slices have one each."""
        parts = torch.split(self.flat, self._sizes)
        border = self._num_actor_layers
        views = [
            [block.view(-1, layer.outputs) for layer, block in zip(layers, blocks, strict=True)]
            for layers, blocks in (
                (self.network.trunk("actor"), parts[:border]),
                (self.network.trunk("critic"), parts[border + 1 :]),
            )
        ]
        return views[0], parts[border], views[1]

    def _trunk(self, name: Trunk, blocks: list[Tensor], normalized_obs: Tensor) -> Tensor:
        x = normalized_obs[self._columns[name]]
        activation = _ACTIVATIONS[self.network.activation]
        num_convolutions = len(self.network.conv_channels)
        x = convolved(self.network, x, [(b[:-1], b[-1]) for b in blocks[:num_convolutions]], activation)
        *hidden, last = blocks[num_convolutions:]
        for block in hidden:
            x = activation(x @ block[:-1] + block[-1])
        return x @ last[:-1] + last[-1]


def _on_one_thread(function: Callable[..., FloatArray]) -> Callable[..., FloatArray]:
    """Computes without gradients on one thread: a few rows are quicker so, and have the same bits in every process."""

    @wraps(function)
    def run(*args: Any) -> FloatArray:
        num_threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with torch.inference_mode():
                return function(*args)
        finally:
            torch.set_num_threads(num_threads)

    return run


class TorchPolicy:
    """The actor's side of any feed-forward policy in torch: `Policy`, and the reference of `NumpyPolicy`."""

    state_size = 0

    def __init__(self, network: NetworkSpec, env: EnvSpec, num_envs: int, num_steps: int) -> None:
        """Acts for K environments, T steps at a time, on one thread."""
        self._policy = ActorCritic(network, torch.zeros(network.num_parameters)).eval()
        self._action = env.action
        self.head = network.distribution
        self._sampler = self.head.sampler(num_steps, num_envs)
        self.outputs = np.empty((num_steps, num_envs, network.action_size), np.float32)

    @torch.no_grad()
    def load(self, parameters: FloatArray, obs_rms_state: RmsState | None) -> None:
        """See `Policy`."""
        self._policy.flat.copy_(torch.from_numpy(parameters))
        self._policy.load_obs_rms_state(obs_rms_state)

    def begin(self, generator: np.random.Generator) -> None:
        """See `Policy`."""
        log_std = self._policy.flat.data[self._policy.network.log_std_slice]
        self._sampler.begin(generator, log_std.numpy())

    def act(self, step: int, obs: FloatArray, act: NDArray[Any], state: FloatArray = NO_STATE) -> NDArray[Any]:
        """See `Policy`."""
        self.outputs[step] = self._output(obs)
        self._sampler.sample(step, self.outputs[step], act)
        return self._action.to_env(act)

    def mode(self, obs: FloatArray, state: FloatArray = NO_STATE) -> NDArray[Any]:
        """See `Policy`."""
        return self._action.to_env(self.head.mode(self._output(obs)))

    @_on_one_thread
    def _output(self, obs: FloatArray) -> FloatArray:
        return self._policy.actor(self._policy.normalize(torch.from_numpy(obs))).numpy()

    @_on_one_thread
    def logp(self, act: NDArray[Any]) -> FloatArray:
        """See `Policy`."""
        return self._policy.logp(torch.from_numpy(act), torch.from_numpy(self.outputs)).numpy()

    @_on_one_thread
    def values(self, obs: FloatArray) -> FloatArray:
        """The critic's values [M] of raw observations [M, D]."""
        rows = torch.from_numpy(np.ascontiguousarray(obs))
        return self._policy.stored_values(self._policy.stored(rows)).numpy()

    def rollout_values(self, slices: Arrays) -> tuple[FloatArray, FloatArray]:
        """See `Policy`; rows whose number varies are computed one by one, which gives each the same bits every time."""
        return rollout_values(self.values, slices, self._values_one_by_one)

    def _values_one_by_one(self, obs: FloatArray) -> FloatArray:
        return np.concatenate([self.values(row[None]) for row in obs])
