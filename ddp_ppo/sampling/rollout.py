"""The arrays of a round's rollout in the memory that a learner and its actors share, and their life cycle. Torch-free.

Who writes: the learner the `published` arrays, and only while no rollout runs; each actor its slice of the
environments of each rollout field and its own entry of `progress`, and only between the learner's "sample" and its own
"done".

Shapes: T rollout_length, B environments of the learner, K of an actor, D observation size, A action size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.maths.moments import RmsState
from ddp_ppo.protocols import Arrays, Policy, Shapes

DISCOUNTED_RETURN = "discounted_return"  # [T, B] float64, shared where a block belongs to several actors
REWARD_CLIP = 10.0  # scaled rewards are held inside +-10


@dataclass(frozen=True)
class Field:
    """One array of a rollout, [T + extra_rows, B, *shape]."""

    name: str
    dtype: str
    shape: tuple[int, ...] = ()
    extra_rows: int = 0


def slot_name(name: str, slot: int) -> str:
    """The name of an array that exists once for each rollout slot; slot 0 has the plain name."""
    return f"{name}@{slot}" if slot else name


def rollout_shapes(fields: tuple[Field, ...], num_steps: int, num_envs: int) -> Shapes:
    """Name -> (dtype, shape) of the arrays of one rollout, as `SharedBlock` takes them."""
    return {field.name: (field.dtype, (num_steps + field.extra_rows, num_envs, *field.shape)) for field in fields}


class Normalization(NamedTuple):
    """What a rollout was normalised with, frozen while it was sampled; the default is nothing at all.

    Attributes:
        obs_rms_state: the statistics of observations; None leaves them raw.
        reward_scale: the factor of rewards.
    """

    obs_rms_state: RmsState | None = None
    reward_scale: float = 1.0


RAW = Normalization()


class Rollout:
    """One round's data of one learner: arrays [T(+1), B, ...], filled by the actors and cleared by the learner.

    Observations and rewards in it are raw; `normalization` says what the policy that acted made of them.
    """

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self.normalization = RAW
        self._is_filled = False

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.arrays[name]

    @property
    def buffer_size(self) -> int:
        """Samples that wait to be trained on: T * B after a rollout, 0 after `clear`."""
        return int(self.arrays["reward"].size) if self._is_filled else 0

    def shuffled(self, sequence_length: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """The numbers of all samples, cut into sequences of L steps in one environment, the sequences in random order.

        Sample t * B + b is step t of environment b. A mini-batch is a range of columns: complete sequences, whose state
        and masks begin where the sequence begins. Sequences of length 1 are single samples.

        Returns:
            [L, T * B / L] numbers; L has to divide T.
        """
        num_steps, num_envs = self.arrays["reward"].shape
        steps = np.arange(num_steps).reshape(-1, sequence_length)  # [T / L, L]
        numbers: NDArray[np.int64] = steps.T[:, :, None] * num_envs + np.arange(num_envs)  # [L, T / L, B]
        order = generator.permutation(num_steps * num_envs // sequence_length)
        shuffled: NDArray[np.int64] = numbers.reshape(sequence_length, -1)[:, order]
        return shuffled

    def fill(self, normalization: Normalization = RAW) -> None:
        """Says that the actors have written a complete rollout, and what it was normalised with."""
        self.normalization = normalization
        self._is_filled = True

    def clear(self) -> None:
        """Says that the data has been used up."""
        self._is_filled = False


class Discounting(NamedTuple):
    """How rewards become returns; reward_scale is 1 / std of the discounted return, or 1 without reward scaling."""

    gamma: float
    gae_lambda: float
    reward_scale: float
    reward_clip: float


Annotate = Callable[[Policy, Arrays, Discounting], None]  # completes one actor's slices [T(+1), K, ...] in place


def scale_reward(reward: Any, scale: float, clip: float) -> Any:
    """clip(reward * scale, -clip, clip) for NumPy arrays and torch tensors."""
    return (reward * scale).clip(-clip, clip)
