"""The agent that DiscoRL trains: a torso with policy and y, and an action model with z, auxiliary policy and q.

The action model takes one LSTM step from the observation's root state for each action on its own. All parameters are
one flat float32 vector, so that averaging and Adam see one tensor. Acting needs no more than torso and policy, which
are a policy of the rest of the package. Source: Oh et al. 2025; initialisation as published.

Shapes: N rows (observations), D observation size, A actions, H units of the action model, P parameters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ddp_ppo.learners.disco.batch import NUM_PREDICTIONS, Heads, TakenHeads
from ddp_ppo.learners.disco.meta_network import lstm_step
from ddp_ppo.learners.disco.values import NUM_BINS
from ddp_ppo.policies.convolution import convolved
from ddp_ppo.policies.network import Layer, NetworkSpec
from ddp_ppo.protocols import FloatArray

_SMALL_STD = 0.01  # of the policy's and y's initial weights
_CUT = 2.0  # initial weights are normal, cut at this many standard deviations


@dataclass(frozen=True)
class AgentSpec:
    """Shape of an agent; plain values.

    Attributes:
        obs_size: D.
        action_size: A.
        hidden_sizes: units of the torso's layers, at least one; no activation follows the last one.
        model_size: H.
        head_size: hidden units of each of the heads z, aux_pi and q.
        conv_channels, image, obs_scale, image_layout: as in `NetworkSpec`; the torso's first layers are convolutions.
    """

    obs_size: int
    action_size: int
    hidden_sizes: tuple[int, ...] = (512, 512)
    model_size: int = 128
    head_size: int = 128
    conv_channels: tuple[int, ...] = ()
    image: tuple[int, ...] = ()
    obs_scale: float = 1.0
    image_layout: str = ""

    @cached_property
    def layers(self) -> dict[str, Layer]:
        """Name -> layer, in the order of the flat vector; the torso comes first: torso.0, torso.1 and so on."""
        *hidden, output = self.acting_network.trunk("actor")
        embedding, model, head = self.hidden_sizes[-1], self.model_size, self.head_size
        torso = [*((layer.inputs, layer.outputs) for layer in hidden), (output.inputs, embedding)]
        shapes = {f"torso.{depth}": pair for depth, pair in enumerate(torso)}
        shapes |= {
            "logits": (embedding, self.action_size),
            "y": (embedding, NUM_PREDICTIONS),
            "root": (embedding, model),
            "model": (self.action_size + model, 4 * model),  # inputs: one-hot action, then hidden state
        }
        for name, outputs in (("z", NUM_PREDICTIONS), ("aux_pi", self.action_size), ("q", NUM_BINS)):
            shapes |= {f"{name}.0": (model, head), f"{name}.1": (head, outputs)}
        layers: dict[str, Layer] = {}
        start = 0
        for name, (inputs, outputs) in shapes.items():
            layers[name] = Layer(name, inputs, outputs, start)
            start += layers[name].size
        return layers

    @property
    def num_parameters(self) -> int:
        """P."""
        return sum(layer.size for layer in self.layers.values())

    @cached_property
    def acting_network(self) -> NetworkSpec:
        """The policy that acts as this agent does."""
        seen = (self.conv_channels, self.image, self.obs_scale)
        return NetworkSpec(
            *(self.obs_size, "categorical", self.action_size, self.hidden_sizes[:-1], "relu", *seen),
            image_layout=self.image_layout,
        )


def initial_parameters(spec: AgentSpec, generator: np.random.Generator) -> FloatArray:
    """Flat vector [P]: zero biases, truncated normal weights of scale 1 / sqrt(inputs), logits and y of 0.01."""
    flat = np.zeros(spec.num_parameters, np.float32)
    for name, layer in spec.layers.items():
        scale = _SMALL_STD if name in ("logits", "y") else 1.0 / math.sqrt(layer.inputs)
        layer.view(flat)[:-1] = scale * _truncated_normal((layer.inputs, layer.outputs), generator)
    return flat


def _truncated_normal(shape: tuple[int, int], generator: np.random.Generator) -> NDArray[np.float64]:
    draws = generator.standard_normal(shape)
    while (outside := np.abs(draws) > _CUT).any():
        draws[outside] = generator.standard_normal(np.count_nonzero(outside))
    return draws


def acting_parameters(spec: AgentSpec, flat: NDArray[np.float32]) -> FloatArray:
    """Parameters of `spec.acting_network` with the same policy; its critic is unused and zero.

    No activation stands between the torso's last layer and the policy's, so both are one layer: their product.
    """
    network = spec.acting_network
    *torso, last = (layer for name, layer in spec.layers.items() if name.startswith("torso"))
    acting = np.zeros(network.num_parameters, np.float32)
    *hidden, output = network.trunk("actor")
    for source, target in zip(torso, hidden, strict=True):
        target.view(acting)[:] = source.view(flat)
    policy = spec.layers["logits"].view(flat).astype(np.float64)
    merged = last.view(flat) @ policy[:-1]
    merged[-1] += policy[-1]
    output.view(acting)[:] = merged
    return acting


class Embedding(NamedTuple):
    """What an agent makes of observations alone."""

    logits: Tensor  # [N, A]
    y: Tensor  # [N, 600]
    cell: Tensor  # [N, H] root of the action model
    gates: Tensor  # [N, 4H] of its step, without what the action adds


class Agent:
    """The forward pass over a flat vector [P]; `parameters` are its pieces: leaves of autograd that share memory."""

    def __init__(self, spec: AgentSpec, flat: Tensor, *, is_trained: bool = True) -> None:
        self.spec = spec
        self.flat = flat
        self.parameters: list[Tensor] = []
        self._layers: dict[str, tuple[Tensor, Tensor]] = {}
        for name, layer in spec.layers.items():
            block = layer.view(flat)
            pieces = [piece.detach().requires_grad_(is_trained) for piece in (block[:-1], block[-1])]
            self.parameters += pieces
            self._layers[name] = pieces[0], pieces[1]

    def embed(self, obs: Tensor) -> Embedding:
        """Everything that does not depend on an action, of observations [N, D]."""
        *hidden, last = (name for name in self._layers if name.startswith("torso"))
        num_convolutions = len(self.spec.conv_channels)
        x = convolved(self.spec.acting_network, obs, [self._layers[name] for name in hidden[:num_convolutions]])
        for name in hidden[num_convolutions:]:
            x = self._linear(name, x).relu()
        x = self._linear(last, x)
        cell = self._linear("root", x)
        w, b = self._layers["model"]
        gates = torch.addmm(b, cell.tanh(), w[self.spec.action_size :])
        return Embedding(self._linear("logits", x), self._linear("y", x), cell, gates)

    def heads(self, embedding: Embedding) -> tuple[Tensor, Tensor]:
        """z [N, A, 600] and q [N, A, 601] of every action."""
        num_rows, num_actions = embedding.logits.shape
        w = self._layers["model"][0][:num_actions]
        gates = embedding.gates.unsqueeze(1) + w  # [N, A, 4H]
        hidden, _ = lstm_step(gates, embedding.cell.unsqueeze(1))
        z, q = (self._head(name, hidden.flatten(0, 1)) for name in ("z", "q"))
        return z.view(num_rows, num_actions, -1), q.view(num_rows, num_actions, -1)

    def taken_heads(self, embedding: Embedding, act: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """z [N, 600], q [N, 601] and aux_pi [N, A] of the actions act [N]."""
        w = self._layers["model"][0]
        gates = embedding.gates + functional.embedding(act, w[: self.spec.action_size])
        hidden, _ = lstm_step(gates, embedding.cell)
        return self._head("z", hidden), self._head("q", hidden), self._head("aux_pi", hidden)

    def _head(self, name: str, hidden: Tensor) -> Tensor:
        return self._linear(f"{name}.1", self._linear(f"{name}.0", hidden).relu())

    def _linear(self, name: str, x: Tensor) -> Tensor:
        w, b = self._layers[name]
        return torch.addmm(b, x, w)


def run(agent: Agent, obs: Tensor) -> Heads:
    """What the meta-network reads of an agent on observations [T + 1, B, D]."""
    embedding = agent.embed(obs.flatten(0, 1))
    logits, y = embedding.logits, embedding.y
    return Heads(*(x.view(*obs.shape[:2], *x.shape[1:]) for x in (logits, y, *agent.heads(embedding))))


def run_online(agent: Agent, obs: Tensor, act: Tensor) -> tuple[Heads, TakenHeads]:
    """The same without gradients, and what is trained of it with gradients, at the actions act [T, B]."""
    num_rows = act.numel()
    embedding = agent.embed(obs.flatten(0, 1))
    with torch.no_grad():
        z, q = agent.heads(embedding)
    detached = (embedding.logits.detach(), embedding.y.detach(), z, q)
    heads = Heads(*(x.view(*obs.shape[:2], *x.shape[1:]) for x in detached))
    first = Embedding(*(x[:num_rows] for x in embedding))  # without the bootstrap row
    trained = (first.logits, first.y, *agent.taken_heads(first, act.flatten()))
    return heads, TakenHeads(*(x.view(*act.shape, -1) for x in trained))
