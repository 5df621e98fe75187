"""The parameters of an actor-critic network as one flat float32 vector.

Publishing, averaging, clipping and Adam work on the flat vector; layers are views into it. Torch-free, so that actors
need no torch. Source of the initialisation: Andrychowicz et al. 2020 (orthogonal, last actor layer x 0.01).

Shapes: M rows, D observation size, H hidden units, A action size, P parameters. A layer is one block [inputs + 1,
outputs] whose last row is the bias, so that a layer is a single matrix product with an input that ends in a 1. The
vector holds the actor's layers, log_std, and then the critic's layers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.actions.action import Head
from ddp_ppo.actions.kinds import HEADS
from ddp_ppo.errors import EnvError
from ddp_ppo.maths.distributions import LOG_STD_MAX, LOG_STD_MIN
from ddp_ppo.observations.layout import View, view_size
from ddp_ppo.observations.layout import image_layout as layout_of_shape
from ddp_ppo.protocols import EnvSpec, FloatArray

CONV_SIZE, CONV_STRIDE, CONV_PADDING = 3, 2, 1  # of every convolution: no pixel is left out, sides are halved

Trunk = Literal["actor", "critic"]
TRUNKS: tuple[Trunk, ...] = ("actor", "critic")


class Layer(NamedTuple):
    """One linear layer: flat[start : start + (inputs + 1) * outputs] viewed as [inputs + 1, outputs].

    Of a convolution the inputs are channels x 3 x 3.
    """

    name: str  # as in an nn.Sequential: "actor.0", "critic.2", ...
    inputs: int
    outputs: int
    start: int

    @property
    def size(self) -> int:
        return (self.inputs + 1) * self.outputs

    def view(self, flat: Any) -> Any:
        """The block [inputs + 1, outputs] of a flat NumPy array or torch tensor, without a copy."""
        return flat[self.start : self.start + self.size].reshape(self.inputs + 1, self.outputs)


@dataclass(frozen=True)
class NetworkSpec:
    """Shape of an actor-critic network with separate trunks; plain values.

    Attributes:
        obs_size: D.
        head: a distribution of `actions.kinds`: "gaussian" (the actor's output is the mean, log_std is a parameter) or
            "categorical" (logits).
        action_size: A, the actor's outputs.
        hidden_sizes: units of each hidden layer; empty for a linear policy.
        activation: "tanh", "relu" or "elu".
        conv_channels: outputs of each convolution in front of the hidden layers; empty for an MLP.
        image: shape of an observation, as in `EnvSpec`; empty for an MLP.
        image_layout: "channels_last" or "channels_first"; empty for an MLP.
        obs_scale: what raw observations are multiplied with where no statistics normalise them.
        actor_view, critic_view: the columns of an observation that a trunk reads; empty for all.
    """

    obs_size: int
    head: str
    action_size: int
    hidden_sizes: tuple[int, ...]
    activation: str
    conv_channels: tuple[int, ...] = ()
    image: tuple[int, ...] = ()
    obs_scale: float = 1.0
    actor_view: View = ()
    critic_view: View = ()
    image_layout: str = ""

    @staticmethod
    def for_env(
        env: EnvSpec,
        hidden_sizes: tuple[int, ...],
        activation: str,
        conv_channels: tuple[int, ...] = (),
        *,
        image_layout: str = "auto",
    ) -> NetworkSpec:
        """The network that acts in this environment; EnvError where there is no image for its convolutions.

        Args:
            image_layout: the setting.
        """
        head = env.action.head
        mlp = NetworkSpec(env.obs_size, head.name, head.num_outputs, tuple(hidden_sizes), activation)
        if not conv_channels:
            return mlp
        if not env.image:
            raise EnvError(f"conv_channels: {env.env_id} observes no image, a Box [H, W, C] or [C, H, W]")
        found = layout_of_shape(env.image) if image_layout == "auto" else image_layout
        if not found:
            raise EnvError(
                f"conv_channels: which side of {env.env_id}'s images {list(env.image)} holds the channels cannot be "
                "told; set image_layout: channels_last or channels_first"
            )
        return replace(
            mlp, conv_channels=tuple(conv_channels), image=env.image, image_layout=found, obs_scale=env.obs_scale
        )

    @property
    def is_channels_first(self) -> bool:
        """Whether an image is [C, H, W], not [H, W, C]."""
        return self.image_layout == "channels_first"

    @property
    def picture(self) -> tuple[int, int, int]:
        """Channels, height and width of an image."""
        first, middle, last = self.image
        return (first, middle, last) if self.is_channels_first else (last, first, middle)

    @property
    def distribution(self) -> Head:
        """What the actor's outputs stand for."""
        return HEADS[self.head](self.action_size)

    @property
    def is_mlp(self) -> bool:
        """Whether there are no convolutions."""
        return not self.conv_channels

    @property
    def conv_shapes(self) -> tuple[tuple[int, int, int], ...]:
        """Channels, height and width of the image, and behind each convolution; empty for an MLP."""
        if self.is_mlp:
            return ()
        _, height, width = self.picture
        shapes = [self.picture]
        for channels in self.conv_channels:
            height, width = ((side + 2 * CONV_PADDING - CONV_SIZE) // CONV_STRIDE + 1 for side in (height, width))
            shapes.append((channels, height, width))
        return tuple(shapes)

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """All layers in the order of the flat vector."""
        actor = self._trunk_layers("actor", self.action_size, 0)
        return actor + self._trunk_layers("critic", 1, self.log_std_slice.stop)

    def view(self, name: Trunk) -> View:
        """The columns that a trunk reads; empty for all."""
        return self.actor_view if name == "actor" else self.critic_view

    def _trunk_layers(self, name: Trunk, outputs: int, start: int) -> tuple[Layer, ...]:
        layers: list[Layer] = []
        convolutions = [(before[0] * CONV_SIZE**2, after[0]) for before, after in pairwise(self.conv_shapes)]
        seen = view_size(self.view(name), self.obs_size)
        first = seen if self.is_mlp else math.prod(self.conv_shapes[-1])
        for depth, shape in enumerate((*convolutions, *pairwise((first, *self.hidden_sizes, outputs)))):
            layers.append(Layer(f"{name}.{2 * depth}", *shape, start))
            start += layers[-1].size
        return tuple(layers)

    def trunk(self, name: Trunk) -> tuple[Layer, ...]:
        """The layers of one trunk, first to last."""
        return tuple(layer for layer in self.layers if layer.name.startswith(name))

    @cached_property
    def log_std_slice(self) -> slice:
        """Where log_std lies in the flat vector; empty for a distribution without one."""
        last = self._trunk_layers("actor", self.action_size, 0)[-1]
        start = last.start + last.size
        return slice(start, start + self.distribution.num_log_std)

    def part(self, name: Trunk) -> slice:
        """Where the actor's parameters, log_std included, or the critic's lie in the flat vector."""
        border = int(self.log_std_slice.stop)
        return slice(0, border) if name == "actor" else slice(border, self.num_parameters)

    @property
    def num_parameters(self) -> int:
        """P."""
        return self.layers[-1].start + self.layers[-1].size


def initial_parameters(spec: NetworkSpec, generator: np.random.Generator, init_log_std: float) -> FloatArray:
    """Flat vector [P]: orthogonal weights (gain sqrt 2; last actor layer 0.01, last critic layer 1), zero biases."""
    flat = np.zeros(spec.num_parameters, np.float32)
    for layer in spec.layers:
        is_last = layer in (spec.trunk("actor")[-1], spec.trunk("critic")[-1])
        gain = (0.01 if layer.name.startswith("actor") else 1.0) if is_last else math.sqrt(2.0)
        layer.view(flat)[:-1] = gain * _orthogonal(layer.inputs, layer.outputs, generator)
    flat[spec.log_std_slice] = init_log_std
    return flat


def _orthogonal(rows: int, columns: int, generator: np.random.Generator) -> NDArray[np.float64]:
    normal = generator.standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(normal)
    q *= np.sign(np.diag(r))  # makes the distribution uniform over orthogonal matrices (Mezzadri 2007)
    return q if rows >= columns else q.T


def hold_log_std(spec: NetworkSpec, flat: Any) -> Any:
    """Holds log_std inside [LOG_STD_MIN, LOG_STD_MAX], in place; whether it had left the range.

    The answer is a scalar of the array's own kind (NumPy or torch), so that nothing waits for a device.
    """
    log_std = flat[spec.log_std_slice]
    outside = ((log_std < LOG_STD_MIN) | (log_std > LOG_STD_MAX)).any()
    flat[spec.log_std_slice] = log_std.clip(LOG_STD_MIN, LOG_STD_MAX)
    return outside


def to_named(spec: NetworkSpec, flat: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Named copies in torch's convention: "actor.0.weight" [out, in], "actor.0.bias" [out], ..., "log_std" [A]."""
    named: dict[str, NDArray[Any]] = {}
    for layer in spec.layers:
        block = layer.view(flat)
        named[f"{layer.name}.weight"] = np.array(block[:-1].T, order="C")
        named[f"{layer.name}.bias"] = block[-1].copy()
    if spec.distribution.num_log_std:
        named["log_std"] = flat[spec.log_std_slice].copy()
    return named


def from_named(spec: NetworkSpec, named: Mapping[str, NDArray[Any]]) -> FloatArray:
    """The flat vector [P] of named arrays.

    Raises:
        ValueError: an array is missing, too many or has another shape; all of them are listed, both shapes named.
    """
    flat = np.zeros(spec.num_parameters, np.float32)
    expected = to_named(spec, flat)
    faults = [
        f"{name} is {tuple(named[name].shape) if name in named else 'missing'}, this network has {array.shape}"
        for name, array in expected.items()
        if name not in named or tuple(named[name].shape) != array.shape
    ]
    faults += [f"{name} {tuple(named[name].shape)} has no place in this network" for name in named.keys() - expected]
    if faults:
        raise ValueError("; ".join(faults))
    for layer in spec.layers:
        layer.view(flat)[:-1] = np.asarray(named[f"{layer.name}.weight"]).T
        layer.view(flat)[-1] = named[f"{layer.name}.bias"]
    if spec.distribution.num_log_std:
        flat[spec.log_std_slice] = named["log_std"]
    return flat
