"""The frozen meta-network of DiscoRL: reads agent and trajectories, and says what the agent is to predict.

A backward LSTM over each trajectory, gated by a meta-RNN that advances once per update over the agent's whole life,
emits the targets. Forward only: nothing here can be trained. Source: Oh et al. 2025.

Shapes: T transitions, B trajectories, A actions, W = 2 networks: both the trajectory network and the meta-RNN embed
the agent's outputs, each with weights of its own; index 0 is the trajectory network.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ddp_ppo.learners.disco.batch import BothHeads, Trajectories
from ddp_ppo.learners.disco.values import Normalized, Values, signed_log
from ddp_ppo.learners.disco.weights import RNN_PREFIX

_PREFIXES = ("lstm/", RNN_PREFIX)  # of W
_NUM_HIDDEN, _NUM_RNN_HIDDEN, _NUM_POLICY_CHANNELS = 256, 128, 2


class Features(NamedTuple):
    """What a network reads, for both of them."""

    x: Tensor  # [W, T, B, 27]
    policy_emb: Tensor  # [W, T, B, A, 2]


class Targets(NamedTuple):
    """Logits of what the agent is to predict; z is for the taken action."""

    pi: Tensor  # [T, B, A]
    y: Tensor  # [T, B, 600]
    z: Tensor  # [T, B, 600]


class RnnState(NamedTuple):
    """The meta-RNN's memory; zero at the agent's birth, never reset."""

    hidden: Tensor  # [128]
    cell: Tensor  # [128]


class MetaNetwork:
    """The weights as a device needs them, and the steps of the forward pass."""

    def __init__(self, weights: Mapping[str, NDArray[np.float32]], device: torch.device) -> None:
        """Takes a copy of these arrays (`weights.load_weights`)."""
        tensors = {name: torch.tensor(array, device=device) for name, array in weights.items()}

        def layer(name: str) -> tuple[Tensor, Tensor]:
            return tensors[f"{name}/w"], tensors[f"{name}/b"]

        def both(name: str) -> tuple[Tensor, Tensor]:
            ws, bs = zip(*(layer(prefix + name) for prefix in _PREFIXES), strict=True)
            return torch.stack(ws), torch.stack(bs)

        self.device = device
        self._embed_y = _Embedding(both("mlp/~/linear_0"), both("mlp/~/linear_1"))
        self._embed_z = _Embedding(both("mlp_1/~/linear_0"), both("mlp_1/~/linear_1"))
        self._convolutions = [both("sequential/conv1_d"), both("sequential/conv1_d_1")]
        self._trajectory = layer("lstm/lstm/linear")
        self._gate = layer("lstm/linear")
        self._input_emb = layer("lstm/linear_1")
        self._y, self._z = layer("lstm/linear_2"), layer("lstm/linear_3")
        self._pi_convolution, self._pi = layer("lstm/sequential_1/conv1_d"), layer("lstm/linear_4")
        self._compression = layer(f"{RNN_PREFIX}mlp_2/~/linear_0")
        self._rnn = layer(f"{RNN_PREFIX}lstm/linear")

    def birth(self) -> RnnState:
        """The meta-RNN before the first update."""
        return RnnState(*torch.zeros(2, _NUM_RNN_HIDDEN, device=self.device))

    def __call__(
        self, hidden: Tensor, heads: BothHeads, *, batch: Trajectories, values: Values, normalized: Normalized
    ) -> tuple[Targets, Tensor]:
        """The targets, and this batch's input [16] of `advance`, which is to be averaged over learners.

        hidden is the meta-RNN's before this update.
        """
        features = self.features(heads, batch, values=values, normalized=normalized)
        gated = self.gated(self.trajectory(features.x[0], batch.ended), hidden)
        targets = self.targets(gated, features.policy_emb[0])
        return targets, self.rnn_input(features.x[1], self.input_emb(gated), targets.y)

    def features(self, heads: BothHeads, batch: Trajectories, *, values: Values, normalized: Normalized) -> Features:
        """The agent's outputs, rewards and values as both networks read them."""
        online, target = heads
        act = batch.act.unsqueeze(-1)
        pi, target_pi = online.logits.softmax(-1), target.logits[:-1].softmax(-1)
        mu = batch.logits.softmax(-1)
        z, target_z = self._embed_z(online.z), self._embed_z(target.z)  # [W, T + 1, B, A]
        one_hot = torch.zeros_like(mu).scatter_(-1, act, 1.0)
        columns = [pi[:-1], mu, target_pi, z[:, :-1], target_z[:, :-1]]
        columns += [signed_log(values.q[:-1]), signed_log(values.qv_adv[:-1]), normalized.qv_adv[:-1], one_hot]
        policy_emb = _stacked(columns, z[:, :-1].shape)
        for convolution in self._convolutions:
            policy_emb = _convolved(policy_emb, *convolution)

        def taken(per_action: Tensor) -> Tensor:
            return (per_action[..., : len(act), :, :] * one_hot).sum(-1)

        def predictions(each: Tensor) -> list[Tensor]:
            return [taken(each), *_pair((each * pi).sum(-1)), *_pair(each.amax(-1))]

        columns = [taken(pi), taken(mu), signed_log(batch.reward), 1.0 - batch.ended.float()]
        columns += [*_pair(signed_log(values.v)), signed_log(values.adv), normalized.adv, taken(target_pi)]
        columns += [*_pair(self._embed_y(online.y)), *_pair(self._embed_y(target.y))]
        columns += [*predictions(z), *predictions(target_z)]
        columns += [*policy_emb.mean(-2).unbind(-1), *(policy_emb * one_hot.unsqueeze(-1)).sum(-2).unbind(-1)]
        return Features(_stacked(columns, (*z.shape[:1], *act.shape[:2])), policy_emb)

    def trajectory(self, x: Tensor, ended: Tensor) -> Tensor:
        """The LSTM's outputs [T, B, 256], run backwards over x [T, B, 27]; it knows nothing of later episodes."""
        w, b = self._trajectory
        gates = functional.linear(x, w[: x.shape[-1]].T, b)
        recurrent = w[x.shape[-1] :]
        lives = (~ended).to(x.dtype).unsqueeze(-1)
        hidden = cell = x.new_zeros(x.shape[1], _NUM_HIDDEN)
        outputs = x.new_empty(*x.shape[:2], _NUM_HIDDEN)
        for t in range(len(x) - 1, -1, -1):
            hidden, cell = lstm_step(torch.addmm(gates[t], hidden * lives[t], recurrent), cell * lives[t])
            outputs[t] = hidden
        return outputs

    def gated(self, trajectory: Tensor, hidden: Tensor) -> Tensor:
        """The outputs [T, B, 256] scaled by what the meta-RNN's hidden state [128] says."""
        return trajectory * _linear(hidden, self._gate)

    def input_emb(self, gated: Tensor) -> Tensor:
        """What the meta-RNN is told of the trajectory [T, B, 1]."""
        return _linear(gated, self._input_emb)

    def targets(self, gated: Tensor, policy_emb: Tensor) -> Targets:
        """What the agent is to predict, from gated outputs [T, B, 256] and embeddings [T, B, A, 2] of each action."""
        w, b = self._pi_convolution
        # Its input is (gated, policy_emb[a]) and the mean of that over a; gated is the same for all actions.
        own, own_emb, mean, mean_emb = torch.split(w[0], [_NUM_HIDDEN, _NUM_POLICY_CHANNELS] * 2)
        common = gated @ (own + mean) + policy_emb.mean(-2) @ mean_emb + b
        channels = (policy_emb @ own_emb + common.unsqueeze(-2)).relu()
        pi = _linear(channels, self._pi).squeeze(-1)
        return Targets(pi, _linear(gated, self._y), _linear(gated, self._z))

    def rnn_input(self, x: Tensor, input_emb: Tensor, y: Tensor) -> Tensor:
        """The mean over the batch [16] of what the meta-RNN reads: its x [T, B, 27], input_emb and the target y."""
        columns = torch.cat([x, input_emb, self._embed_y(y)[1].unsqueeze(-1)], -1)
        return _linear(columns.mean((0, 1)), self._compression)

    def advance(self, state: RnnState, rnn_input: Tensor) -> RnnState:
        """One step of the meta-RNN, from an input [16] that is the same on all learners."""
        return RnnState(*lstm_step(_linear(torch.cat([rnn_input, state.hidden]), self._rnn), state.cell))


def lstm_step(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """One step of an LSTM in Haiku's convention, the agent's as well.

    Args:
        gates: [..., 4H] before their nonlinearities: input, candidate, forget and output, in this order; 1 is added to
            the forget gate.
        cell: [..., H].

    Returns:
        The new hidden state and cell, [..., H] each.
    """
    entry, candidate, forget, output = gates.chunk(4, dim=-1)
    cell = torch.sigmoid(forget + 1.0) * cell + torch.sigmoid(entry) * torch.tanh(candidate)
    return torch.sigmoid(output) * torch.tanh(cell), cell


class _Embedding:
    """A softmax and an MLP 600 -> 16 -> 1, for both networks at once: logits [..., 600] to [W, ...]."""

    def __init__(self, first: tuple[Tensor, Tensor], last: tuple[Tensor, Tensor]) -> None:
        (w, b), (w_last, b_last) = first, last
        self._first = torch.cat([*w], 1), b.flatten()  # [600, W * 16]
        self._last = torch.block_diag(*w_last), b_last.flatten()  # type: ignore[no-untyped-call]  # [W * 16, W]

    def __call__(self, logits: Tensor) -> Tensor:
        hidden = _linear(logits.softmax(-1), self._first).relu()
        return _linear(hidden, self._last).movedim(-1, 0)


def _linear(x: Tensor, layer: tuple[Tensor, Tensor]) -> Tensor:
    return functional.linear(x, layer[0].T, layer[1])


def _convolved(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """relu of a linear layer over (x, mean of x over actions): [W, T, B, A, C] with w [W, 1, 2C, K] to [W, ..., K]."""
    size = x.shape[-1]
    own = torch.einsum("wtbac,wck->wtbak", x, w[:, 0, :size])
    mean = torch.einsum("wtbc,wck->wtbk", x.mean(-2), w[:, 0, size:]) + b[:, None, None]
    return (own + mean.unsqueeze(-2)).relu()


def _pair(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows t and t + 1, both [..., T, B], of [..., T + 1, B]."""
    return x[..., :-1, :], x[..., 1:, :]


def _stacked(columns: list[Tensor], shape: tuple[int, ...]) -> Tensor:
    """Columns, each broadcast to this shape, side by side in a new last dimension."""
    return torch.stack([column.expand(shape) for column in columns], -1)
