"""The seam between action spaces and everything else: what an action and the distribution over it can do.

Nobody asks which kind of action space there is; they call these methods. A head works with NumPy arrays and with torch
tensors alike, and never imports torch itself.

Shapes: K environments, T steps, n samples of a mini-batch, A outputs of the actor, C columns that describe an action.
A stored sample has the shape [...] + `act_shape`; what stands in the checkpoint, the rollout and the log-probability is
this sample, what the environment gets is `to_env` of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Array = Any  # numpy.ndarray or torch.Tensor, the same for all arguments of a call
FloatArray = NDArray[np.float32]
Node = tuple[str, list[str], str, dict[str, Any]]  # of an ONNX graph: operator, inputs, output, attributes


class Sampler(Protocol):
    """Draws the actions of a rollout of T steps in K environments, all of its noise up front."""

    def begin(self, generator: np.random.Generator, log_std: FloatArray) -> None:
        """Draws the noise of a complete rollout."""

    def sample(self, step: int, output: FloatArray, act: NDArray[Any]) -> None:
        """Writes the samples of step 0 .. T-1 for the actor's output [K, A] to act [K, ...]."""


class HeadGradient(Protocol):
    """The gradient of log-probability and entropy for one actor, in NumPy; its two methods are called in turn."""

    def log_ratio(
        self, act: NDArray[Any], output: FloatArray, old_logp: FloatArray, *, out: FloatArray, entropy: FloatArray
    ) -> None:
        """Writes logp - old_logp [n] to out and the entropy [n]; may use `output` up."""

    def backward(self, d_logp: FloatArray) -> FloatArray:
        """Turns d loss / d logp [n] into d loss / d output [n, A], the entropy bonus included.

        It writes the gradient of log_std too, where there is one.
        """


class Head(Protocol):
    """The distribution over actions that an actor's output stands for."""

    name: str  # as in `NetworkSpec.head`
    num_outputs: int  # A
    num_log_std: int  # state-independent parameters behind the actor's layers, each the log of a standard deviation
    act_dtype: str
    act_shape: tuple[int, ...]

    def logp(self, act: Array, output: Array, log_std: Array) -> Array:
        """Log-probability [...] of samples [..., *act_shape] for outputs [..., A]."""

    def evaluate(self, act: Array, output: Array, log_std: Array) -> tuple[Array, Array]:
        """Log-probability [...] and entropy, [...] or a scalar where it does not depend on the output."""

    def mode(self, output: NDArray[Any]) -> NDArray[Any]:
        """The likeliest sample [..., *act_shape] (NumPy)."""

    def sampler(self, num_steps: int, num_envs: int) -> Sampler:
        """What draws a rollout's actions."""

    def gradient(self, log_std: FloatArray, d_log_std: FloatArray, *, entropy_coef: float) -> HeadGradient:
        """The gradient for a loss with this weight of the entropy bonus; reads log_std, writes d_log_std."""


class Probe(NamedTuple):
    """One action to try out: how to call it, and its value as a stored sample without leading dimensions."""

    name: str
    act: NDArray[Any]


class Action(Protocol):
    """One environment's action space.

    Attributes:
        kind: as in `EnvSpec.action_kind`.
        head: the distribution that a policy has over it.
        low, high: limits [A] of a continuous action, infinite ones included; empty for choices.
        num_choices: how many values there are, None where they cannot be counted.
        has_alternatives: whether the columns of a table are values to choose from, not quantities that act together.
    """

    kind: str
    head: Head
    low: FloatArray
    high: FloatArray
    num_choices: int | None
    has_alternatives: bool

    def describe(self) -> str:
        """How many there are of what, such as "6 continuous"."""

    def column_names(self) -> list[str]:
        """What the C columns of a table of this action are called where nobody named them."""

    def fixed_rows(self, num_envs: int) -> Any:
        """A function from samples [K, ...] to what the environment gets, valid until its next call."""

    def to_env(self, act: NDArray[Any]) -> NDArray[Any]:
        """What the environment gets for samples [..., *act_shape]: inside the limits."""

    def to_own(self, action: NDArray[Any]) -> NDArray[Any]:
        """The environment's own values of what it gets: a Discrete space may not begin at 0."""

    def from_own(self, values: NDArray[Any]) -> NDArray[Any]:
        """What the environment gets, of its own values."""

    def read(self, values: NDArray[Any]) -> tuple[NDArray[Any], tuple[str, ...]]:
        """Own values [T, ...] of a file in the space's shape and type, and a note for what had to be changed.

        Raises:
            ValueError: they do not fit; the message says what would.
        """

    def random(self, generator: np.random.Generator, *shape: int) -> NDArray[Any]:
        """Uniform actions [*shape, *act_shape]."""

    def neutral(self) -> NDArray[Any]:
        """The action that asks for nothing, as far as there is one."""

    def probes(self, index: int, *, small: float) -> list[Probe]:
        """Actions to try column `index` out with, gentlest first; none where it is the neutral one itself."""

    def neutral_name(self, names: Sequence[str]) -> str:
        """What the neutral action is called, given the names of the columns."""

    def figures(self, actions: NDArray[Any]) -> dict[str, str]:
        """What a summary of actions [T, ...] says of them."""

    def series(self, act: NDArray[Any], names: Sequence[str], units: Sequence[str]) -> list[Series]:
        """Curves of own values [T, ...]."""

    def disagreement(self, got: NDArray[Any], expected: NDArray[Any], output: FloatArray) -> FloatArray:
        """How far actions [N, ...] are from the expected ones, [N, 1], in units of the output [N, A]."""

    def constants(self) -> dict[str, NDArray[Any]]:
        """Arrays by name that an exported policy needs to turn outputs into actions."""

    def onnx_nodes(self) -> list[Node]:
        """The nodes from "output" [N, A] to "action" [N, ...], with `constants` as inputs."""

    def document(self) -> list[dict[str, Any]]:
        """What an export's description says of each of the C columns."""


def fits(values: NDArray[Any], size: int) -> bool:
    """Whether there are `size` finite numbers for each of at least one step, as [T, size] or, of one number, [T]."""
    has_shape = values.ndim in (1, 2) and 0 < values.size == len(values) * size
    return has_shape and bool(np.isfinite(values).all())


class Series(NamedTuple):
    """One curve over the steps of an episode."""

    title: str
    unit: str
    values: NDArray[Any]
    note: str = ""
