"""Adam whose step is clipped: each element of the ratio m / (sqrt(v) + eps), not the gradient. In place.

The ratio exceeds 1 only where a gradient comes after quiet ones, up to about 3; clipping gradients is another thing.
Source: Kingma and Ba 2015; the clip as in Oh et al. 2025.

Shapes: P parameters.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ddp_ppo.learners.adam_state import AdamState

_BETA1, _BETA2, _EPS, _MAX_RATIO = 0.9, 0.999, 1e-8, 1.0


def fresh_optimizer(parameters: Tensor) -> AdamState:
    """Adam at its beginning, for these parameters [P]."""
    return AdamState(
        torch.zeros_like(parameters), torch.zeros_like(parameters), torch.zeros((), device=parameters.device)
    )


@torch.no_grad()
def clipped_adam(parameters: Tensor, gradient: Tensor, state: AdamState, learning_rate: float) -> None:
    """Moves parameters [P] one step against the gradient [P]."""
    state.step += 1.0
    state.exp_avg.lerp_(gradient, 1.0 - _BETA1)
    state.exp_avg_sq.mul_(_BETA2).addcmul_(gradient, gradient, value=1.0 - _BETA2)
    mean = state.exp_avg / (1.0 - _BETA1**state.step)
    root = (state.exp_avg_sq / (1.0 - _BETA2**state.step)).sqrt_()
    parameters.add_(mean.div_(root.add_(_EPS)).clamp_(-_MAX_RATIO, _MAX_RATIO), alpha=-learning_rate)
