"""One step of an LSTM in Haiku's convention, which the agent and the meta-network share.

Gates come as four blocks in the order input, candidate, forget, output; the forget gate's bias has 1 added to it when
it runs. The product of inputs, hidden state and weights is the caller's.
"""

from __future__ import annotations

import torch
from torch import Tensor


def lstm_step(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """New hidden and cell state [..., H] from gates [..., 4H] before their nonlinearities and the cell [..., H]."""
    entry, candidate, forget, output = gates.chunk(4, dim=-1)
    cell = torch.sigmoid(forget + 1.0) * cell + torch.sigmoid(entry) * torch.tanh(candidate)
    return torch.sigmoid(output) * torch.tanh(cell), cell
