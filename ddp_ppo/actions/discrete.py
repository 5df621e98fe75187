"""One choice of A: a Discrete space, and a categorical distribution.

The sample is the choice counted from 0; only the environment's own values may begin elsewhere.

Shapes: K environments, T steps, n samples of a mini-batch, A choices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.actions.action import Array, FloatArray, Head, Node, Probe, Series, fits
from ddp_ppo.maths.distributions import categorical_logp, exp, log_softmax, taken
from ddp_ppo.maths.rows import row_dots


class CategoricalHead:
    """The distribution: the outputs are logits."""

    name = "categorical"
    act_dtype = "int64"
    act_shape: tuple[int, ...] = ()
    num_log_std = 0

    def __init__(self, size: int) -> None:
        self.num_outputs = size

    def logp(self, act: Array, output: Array, log_std: Array) -> Array:
        """See `Head`."""
        return categorical_logp(act, output)

    def evaluate(self, act: Array, output: Array, log_std: Array) -> tuple[Array, Array]:
        """See `Head`."""
        log_probabilities = log_softmax(output)
        return taken(log_probabilities, act), -(exp(log_probabilities) * log_probabilities).sum(-1)

    def mode(self, output: NDArray[Any]) -> NDArray[Any]:
        """The likeliest choice."""
        return np.asarray(output.argmax(axis=-1))

    def sampler(self, num_steps: int, num_envs: int) -> GumbelSampler:
        """See `Head`."""
        return GumbelSampler(num_steps, num_envs, self.num_outputs)

    def gradient(self, log_std: FloatArray, d_log_std: FloatArray, *, entropy_coef: float) -> CategoricalGradient:
        """See `Head`."""
        return CategoricalGradient(entropy_coef)


class GumbelSampler:
    """Gumbel noise: the largest sum of logit and noise is a sample of the categorical (Gumbel 1954)."""

    def __init__(self, num_steps: int, num_envs: int, size: int) -> None:
        self._noise = np.empty((num_steps, num_envs, size), np.float32)

    def begin(self, generator: np.random.Generator, log_std: FloatArray) -> None:
        """See `Sampler`."""
        self._noise = generator.gumbel(size=self._noise.shape).astype(np.float32)

    def sample(self, step: int, output: FloatArray, act: NDArray[Any]) -> None:
        """See `Sampler`."""
        np.argmax(output + self._noise[step], axis=-1, out=act)


class CategoricalGradient:
    """See `HeadGradient`."""

    def __init__(self, entropy_coef: float) -> None:
        self._entropy_coef = entropy_coef
        self._act: NDArray[np.int64] = np.zeros(0, np.int64)
        self._log_probabilities = self._probabilities = self._entropy = np.zeros(0, np.float32)

    def log_ratio(
        self, act: NDArray[Any], output: FloatArray, old_logp: FloatArray, *, out: FloatArray, entropy: FloatArray
    ) -> None:
        """See `HeadGradient`."""
        self._act = act
        self._log_probabilities = log_softmax(output)
        self._probabilities = np.exp(self._log_probabilities)
        self._entropy = -row_dots(self._probabilities, self._log_probabilities)
        entropy[:] = self._entropy
        np.subtract(self._log_probabilities[np.arange(len(output)), act], old_logp, out=out)

    def backward(self, d_logp: FloatArray) -> FloatArray:
        """See `HeadGradient`."""
        rows = np.arange(len(d_logp))
        d_logits = self._probabilities * -d_logp[:, None]
        d_logits[rows, self._act] += d_logp
        if self._entropy_coef:
            weight = np.float32(self._entropy_coef / len(rows))
            d_logits += weight * self._probabilities * (self._log_probabilities + self._entropy[:, None])
        return np.asarray(d_logits)


class DiscreteAction:
    """The choices 0 .. A-1; the environment's own values are `start` larger."""

    kind = "discrete"
    has_alternatives = True
    low = high = np.zeros(0, np.float32)

    def __init__(self, size: int, start: int = 0) -> None:
        self.num_choices: int | None = size
        self._size, self._start = size, start
        self.head: Head = CategoricalHead(size)

    def describe(self) -> str:
        """See `Action`."""
        return f"{self._size} discrete"

    def column_names(self) -> list[str]:
        """One for each choice, by the environment's own value."""
        return [f"choice {self._start + choice}" for choice in range(self._size)]

    def fixed_rows(self, num_envs: int) -> Callable[[NDArray[Any]], NDArray[Any]]:
        """See `Action`."""
        return self.to_env

    def to_env(self, act: NDArray[Any]) -> NDArray[Any]:
        """The choice itself; the environment adds what its own values begin with."""
        return act

    def to_own(self, action: NDArray[Any]) -> NDArray[Any]:
        """See `Action`."""
        return action + self._start

    def from_own(self, values: NDArray[Any]) -> NDArray[Any]:
        """See `Action`."""
        return values - self._start

    def read(self, values: NDArray[Any]) -> tuple[NDArray[Any], tuple[str, ...]]:
        """See `Action`."""
        if not fits(values, 1):
            raise ValueError(f"needs 1 finite number(s) for each step, has shape {values.shape}")
        choices = values.reshape(-1).astype(np.int64)
        first, last = self._start, self._start + self._size - 1
        if (choices != values.reshape(-1)).any() or choices.min() < first or choices.max() > last:
            raise ValueError(f"choices are whole numbers from {first} to {last}")
        return choices, ()

    def random(self, generator: np.random.Generator, *shape: int) -> NDArray[Any]:
        """See `Action`."""
        return generator.integers(self._size, size=shape)

    def neutral(self) -> NDArray[Any]:
        """Choice 0, which is as good as any other."""
        return np.array(0)

    def probes(self, index: int, *, small: float) -> list[Probe]:
        """The choice itself; nothing for choice 0, which the others are compared with."""
        return [Probe(f"choice {index}", np.array(index))] if index else []

    def neutral_name(self, names: Sequence[str]) -> str:
        """See `Action`."""
        return names[0]

    def figures(self, actions: NDArray[Any]) -> dict[str, str]:
        """How often each choice was taken."""
        counts = Counter(self.to_own(actions).ravel().tolist())
        return {"choices": ", ".join(f"{value} x {count}" for value, count in counts.most_common(5))}

    def series(self, act: NDArray[Any], names: Sequence[str], units: Sequence[str]) -> list[Series]:
        """One curve, the names of the choices as its note."""
        note = ", ".join(f"{value} {name}" for value, name in enumerate(names, self._start))
        return [Series("Action", "choice", act, note)]

    def disagreement(self, got: NDArray[Any], expected: NDArray[Any], output: FloatArray) -> FloatArray:
        """By how much the output prefers the expected choice, [N, 1]; infinite for a choice that does not exist."""
        if not np.isin(got, range(self._size)).all():
            return np.full((len(got), 1), np.inf, np.float32)
        own, other = (np.take_along_axis(output, each[:, None], -1) for each in (expected, got))
        return np.asarray(own - other)

    def constants(self) -> dict[str, NDArray[Any]]:
        """See `Action`."""
        return {"action_start": np.array(self._start, np.int64)}

    def onnx_nodes(self) -> list[Node]:
        """See `Action`."""
        return [
            ("ArgMax", ["output"], "choice", {"axis": -1, "keepdims": 0}),
            ("Add", ["choice", "action_start"], "action", {}),
        ]

    def document(self) -> list[dict[str, Any]]:
        """See `Action`."""
        return [{"value": self._start + choice} for choice in range(self._size)]
