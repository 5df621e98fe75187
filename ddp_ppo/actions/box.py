"""Continuous actions: a Box of A dimensions, and a diagonal Gaussian with a log_std that no observation changes.

The sample is what counts for the log-probability; the environment gets it clipped to the limits.

Shapes: K environments, T steps, n samples of a mini-batch, A dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.actions.action import Array, FloatArray, Head, Node, Probe, Series, fits
from ddp_ppo.maths.distributions import HALF_LOG_2PI, exp, gaussian_entropy, gaussian_logp, prepare_action


class GaussianHead:
    """The distribution: the output is the mean, log_std a parameter."""

    name = "gaussian"
    act_dtype = "float32"

    def __init__(self, size: int) -> None:
        self.num_outputs = self.num_log_std = size
        self.act_shape: tuple[int, ...] = (size,)

    def logp(self, act: Array, output: Array, log_std: Array) -> Array:
        """See `Head`."""
        return gaussian_logp(act, output, log_std, exp(log_std))

    def evaluate(self, act: Array, output: Array, log_std: Array) -> tuple[Array, Array]:
        """See `Head`; the entropy is a scalar."""
        return self.logp(act, output, log_std), gaussian_entropy(log_std)

    def mode(self, output: NDArray[Any]) -> NDArray[Any]:
        """The mean."""
        return output

    def sampler(self, num_steps: int, num_envs: int) -> GaussianSampler:
        """See `Head`."""
        return GaussianSampler(num_steps, num_envs, self.num_outputs)

    def gradient(self, log_std: FloatArray, d_log_std: FloatArray, *, entropy_coef: float) -> GaussianGradient:
        """See `Head`."""
        return GaussianGradient(log_std, d_log_std, entropy_coef)


class GaussianSampler:
    """Standard normal noise, scaled once for a whole rollout."""

    def __init__(self, num_steps: int, num_envs: int, size: int) -> None:
        self._noise = np.empty((num_steps, num_envs, size), np.float32)
        self._scaled = self._noise

    def begin(self, generator: np.random.Generator, log_std: FloatArray) -> None:
        """See `Sampler`."""
        generator.standard_normal(dtype=np.float32, out=self._noise)
        self._scaled = self._noise * np.exp(log_std)

    def sample(self, step: int, output: FloatArray, act: NDArray[Any]) -> None:
        """See `Sampler`."""
        np.add(output, self._scaled[step], act)


class GaussianGradient:
    """See `HeadGradient`."""

    def __init__(self, log_std: FloatArray, d_log_std: FloatArray, entropy_coef: float) -> None:
        self._log_std, self._d_log_std, self._entropy_coef = log_std, d_log_std, entropy_coef
        self._deviation = self._squares = self._inv_var = np.zeros(0, np.float32)

    def log_ratio(
        self, act: NDArray[Any], output: FloatArray, old_logp: FloatArray, *, out: FloatArray, entropy: FloatArray
    ) -> None:
        """See `HeadGradient`."""
        num_dimensions = len(self._log_std)
        self._inv_var = np.exp(self._log_std * np.float32(-2.0))
        log_scale = float(np.add.reduce(self._log_std)) + num_dimensions * HALF_LOG_2PI
        self._deviation = np.subtract(act, output, out=output)
        self._squares = np.square(self._deviation)
        self._squares.dot(self._inv_var * np.float32(-0.5), out)
        out -= old_logp
        out -= np.float32(log_scale)
        entropy.fill(log_scale + 0.5 * num_dimensions)

    def backward(self, d_logp: FloatArray) -> FloatArray:
        """See `HeadGradient`."""
        # d logp / d log_std = ((act - mean) / std) ** 2 - 1, and the entropy grows by 1 with each log_std.
        d_logp.dot(self._squares, self._d_log_std)
        self._d_log_std *= self._inv_var
        self._d_log_std -= np.float32(np.add.reduce(d_logp) + self._entropy_coef)
        self._deviation *= np.multiply.outer(d_logp, self._inv_var)
        return np.asarray(self._deviation)


class BoxAction:
    """A Box of floats, flattened; limits may be infinite."""

    kind = "box"
    num_choices: int | None = None
    has_alternatives = False

    def __init__(self, low: Sequence[float], high: Sequence[float]) -> None:
        self.low, self.high = (np.array(bound, np.float32) for bound in (low, high))
        self.head: Head = GaussianHead(len(self.low))

    def describe(self) -> str:
        """See `Action`."""
        return f"{len(self.low)} continuous"

    def column_names(self) -> list[str]:
        """One for each dimension."""
        return [f"action[{index}]" for index in range(len(self.low))]

    def fixed_rows(self, num_envs: int) -> Callable[[NDArray[Any]], NDArray[Any]]:
        """See `Action`; limits are repeated for each row, which NumPy compares much faster than it broadcasts."""
        low, high = (np.tile(bound, (num_envs, 1)) for bound in (self.low, self.high))
        out = np.empty_like(low)

        def clip(act: NDArray[Any]) -> NDArray[Any]:
            np.maximum(act, low, out=out)
            return np.minimum(out, high, out=out)

        return clip

    def to_env(self, act: NDArray[Any]) -> NDArray[Any]:
        """See `Action`."""
        return prepare_action(act, self.low, self.high)[1]

    def to_own(self, action: NDArray[Any]) -> NDArray[Any]:
        """The same values, in memory that nobody writes to later."""
        return action.copy()

    def from_own(self, values: NDArray[Any]) -> NDArray[Any]:
        """The same values."""
        return values

    def read(self, values: NDArray[Any]) -> tuple[NDArray[Any], tuple[str, ...]]:
        """See `Action`; values outside the limits are clipped."""
        size = len(self.low)
        if not fits(values, size):
            raise ValueError(f"needs {size} finite number(s) for each step, has shape {values.shape}")
        wanted = values.reshape(-1, size).astype(np.float32)
        given = np.clip(wanted, self.low, self.high)
        clipped = np.argwhere(wanted != given)
        if not len(clipped):
            return given, ()
        step, column = clipped[0].tolist()
        first = f"action[{column}] of step {step + 1}, {wanted[step, column]:g}, became {given[step, column]:g}"
        num_steps = len(np.unique(clipped[:, 0]))
        return given, (
            f"actions of {num_steps} of {len(given)} steps are outside the limits and were clipped: {first}",
        )

    def drawn_limits(self) -> tuple[FloatArray, FloatArray]:
        """Limits [A] to draw from: an infinite one is replaced by one that is 1 or 2 away."""
        low, high = self.low.astype(np.float64), self.high.astype(np.float64)
        low = np.where(np.isfinite(low), low, np.where(np.isfinite(high), np.minimum(high, 0), 0) - 1)
        high = np.where(np.isfinite(high), high, np.maximum(low, 0) + 1)
        return low.astype(np.float32), high.astype(np.float32)

    def random(self, generator: np.random.Generator, *shape: int) -> NDArray[Any]:
        """See `Action`."""
        low, high = self.drawn_limits()
        return np.clip(generator.uniform(low, high, (*shape, len(low))).astype(np.float32), low, high)

    def neutral(self) -> NDArray[Any]:
        """The action nearest to 0."""
        low, high = self.drawn_limits()
        return np.clip(np.zeros(len(low), np.float32), low, high)

    def probes(self, index: int, *, small: float) -> list[Probe]:
        """One dimension a little away from the neutral action, then at its limits; `small` is a part of its range."""
        low, high = self.drawn_limits()
        still = self.neutral()
        found = []
        for target in (still[index] + small * (high[index] - low[index]), high[index], low[index]):
            action = still.copy()
            action[index] = min(target, high[index])
            found.append(Probe(f"{action[index]:.3g}", action))
        return found

    def neutral_name(self, names: Sequence[str]) -> str:
        """See `Action`."""
        return "0"

    def figures(self, actions: NDArray[Any]) -> dict[str, str]:
        """See `Action`."""
        return {"largest action": f"{np.abs(actions).max():.4g}"}

    def series(self, act: NDArray[Any], names: Sequence[str], units: Sequence[str]) -> list[Series]:
        """One curve for each dimension; a unit that begins with a number is a factor."""
        words = [f"times {unit}" if unit[:1].isdigit() else unit or "value" for unit in units]
        return [Series(name, word, act[:, i]) for i, (name, word) in enumerate(zip(names, words, strict=True))]

    def disagreement(self, got: NDArray[Any], expected: NDArray[Any], output: FloatArray) -> FloatArray:
        """The difference of each dimension, [N, A]."""
        return np.asarray(np.abs(got - expected))

    def constants(self) -> dict[str, NDArray[Any]]:
        """See `Action`."""
        return {"action_low": self.low, "action_high": self.high}

    def onnx_nodes(self) -> list[Node]:
        """See `Action`."""
        return [
            ("Max", ["output", "action_low"], "raised", {}),
            ("Min", ["raised", "action_high"], "action", {}),
        ]

    def document(self) -> list[dict[str, Any]]:
        """See `Action`."""
        return [{"low": low, "high": high} for low, high in zip(self.low.tolist(), self.high.tolist(), strict=True)]
