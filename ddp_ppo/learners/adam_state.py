"""The state of Adam (Kingma and Ba 2015) beside one flat parameter vector [P]; each learner has its own rule."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass
class AdamState:
    """Adam's moments as flat vectors [P] beside the parameters, and its number of steps, a tensor with one element."""

    exp_avg: Tensor
    exp_avg_sq: Tensor
    step: Tensor
