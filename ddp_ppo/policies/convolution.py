"""The convolutions in front of a network that sees images: 3x3, stride 2, padding 1, the same for every learner.

Their parameters are layers of the flat vector like all others; what images and convolutions there are, a `NetworkSpec`
says. The order of a convolution's inputs is that of torch: channel, row, column.

Shapes: D observation size, E numbers behind the last convolution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from ddp_ppo.policies.network import CONV_PADDING, CONV_SIZE, CONV_STRIDE, NetworkSpec


def convolved(
    network: NetworkSpec,
    obs: Tensor,
    layers: Sequence[tuple[Tensor, Tensor]],
    activation: Callable[[Tensor], Tensor] = torch.relu,
) -> Tensor:
    """Normalised observations [..., D] as the dense layers read them, [..., E]; for an MLP what they are.

    Args:
        layers: weights [inputs, outputs] and biases [outputs] of the convolutions, first to last.
    """
    if network.is_mlp:
        return obs
    x = obs.reshape(-1, *network.image)
    x = x if network.is_channels_first else x.permute(0, 3, 1, 2)
    for weight, bias in layers:
        kernel = weight.T.reshape(len(bias), x.shape[1], CONV_SIZE, CONV_SIZE)
        x = activation(functional.conv2d(x, kernel, bias, CONV_STRIDE, CONV_PADDING))
    return x.reshape(*obs.shape[:-1], -1)
