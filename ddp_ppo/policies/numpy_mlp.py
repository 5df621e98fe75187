"""The forward pass of one MLP trunk in NumPy, all memory allocated once. Torch-free.

Shapes: M rows, D observation size, H hidden units.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ddp_ppo.policies.network import Layer
from ddp_ppo.protocols import FloatArray


class Activation(NamedTuple):
    """An activation in NumPy, with what it maps to 1: the value that keeps a column of ones alive."""

    forward: Callable[[FloatArray, FloatArray], object]  # x, out
    before_one: float


def _elu(x: FloatArray, out: FloatArray) -> None:
    negative = np.expm1(np.minimum(x, 0.0))
    np.maximum(x, 0.0, out=out)
    out += negative


NUMPY_ACTIVATIONS = {
    "tanh": Activation(np.tanh, 20.0),  # tanh(20) is 1 in float32
    "relu": Activation(lambda x, out: np.maximum(x, 0.0, out=out), 1.0),
    "elu": Activation(_elu, 1.0),
}


class NumpyMlp:
    """Forward pass of one trunk for a fixed number of rows, all memory allocated once.

    Hidden layers carry a last column of ones for the bias of the next one. A weight column that is zero but for the
    bias makes it, so that every product and activation runs over whole contiguous arrays.
    """

    def __init__(self, layers: tuple[Layer, ...], activation: str, num_rows: int) -> None:
        self._layers = layers
        self._activation = NUMPY_ACTIVATIONS[activation]
        self.input = np.ones((num_rows, layers[0].inputs + 1), np.float32)  # [M, D + 1], the last column stays 1
        widths = [layer.outputs + 1 for layer in layers[:-1]]
        self._weights = [np.zeros((layer.inputs + 1, layer.outputs + 1), np.float32) for layer in layers[:-1]]
        for weight in self._weights:
            weight[-1, -1] = self._activation.before_one
        self._last = np.zeros((layers[-1].inputs + 1, layers[-1].outputs), np.float32)
        hidden = [np.empty((num_rows, width), np.float32) for width in widths]
        inputs = [self.input, *hidden]
        pairs = zip(self._weights, hidden, strict=True)
        # Methods of arrays: np.dot takes 0.1 us longer, as it looks for other kinds of arrays first.
        self._products = [(x.dot, *pair) for x, pair in zip(inputs, pairs, strict=False)]
        self._last_product = inputs[-1].dot

    def load(self, flat: FloatArray, input_scale: FloatArray) -> None:
        """Takes a copy of these parameters [P], its first weights multiplied by input_scale [D]."""
        for layer, weight in zip(self._layers, self._weights, strict=False):
            weight[:, :-1] = layer.view(flat)
        self._last[:] = self._layers[-1].view(flat)
        first = self._weights[0] if self._weights else self._last
        first[:-1] *= input_scale[:, None]

    def forward(self, out: FloatArray) -> None:
        """Maps `input` [M, D + 1], filled by the caller, to out [M, outputs], which must be contiguous."""
        activate = self._activation.forward
        for product, weight, hidden in self._products:
            product(weight, hidden)
            activate(hidden, hidden)
        self._last_product(self._last, out)
