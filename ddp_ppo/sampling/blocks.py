"""Blocks: the fixed groups of a learner's environments that streams, policy calls and statistics belong to.

A row of a matrix product has other last bits where there are more or fewer rows, and a mean has others where it is
taken in other parts. So none of these may depend on which actor steps an environment: they belong to blocks, which the
number of a learner's environments alone decides. Results are then the same with any number of actors. Torch-free.

Shapes: T rollout_length, B environments of the learner, K environments of one actor, D observation size.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.maths.moments import RmsState, compute_batch_moments
from ddp_ppo.protocols import FloatArray

_USUAL_ROWS = 8  # more would make actors with few environments compute for many others
_MOST_ROWS = 64  # beyond that a policy's time per row hardly falls
_USUAL_BLOCKS = 8


class Part(NamedTuple):
    """What one actor has of a block.

    Attributes:
        block: the block's number.
        size: environments of the block.
        own: where the common ones are among the actor's environments.
        inside: where they are among the block's.
    """

    block: int
    size: int
    own: slice
    inside: slice

    @property
    def is_complete(self) -> bool:
        """Whether the actor has all environments of the block."""
        return self.inside == slice(0, self.size)


def block_size(num_envs: int) -> int:
    """Environments of a block, but for the last one: half of up to 16, then 8, then an eighth, 64 at most."""
    half, eighth = -(-num_envs // 2), -(-num_envs // _USUAL_BLOCKS)
    return min(num_envs, _MOST_ROWS, max(2, min(half, _USUAL_ROWS), eighth))


def env_blocks(num_envs: int) -> list[slice]:
    """The environments of each block of a learner that has so many."""
    size = block_size(num_envs)
    return [slice(start, min(start + size, num_envs)) for start in range(0, num_envs, size)]


def parts_of(own: slice, num_envs: int) -> list[Part]:
    """The parts of blocks that an actor has with these environments of a learner's B."""
    parts = []
    for number, block in enumerate(env_blocks(num_envs)):
        first, last = max(own.start, block.start), min(own.stop, block.stop)
        if first < last:
            among_own = slice(first - own.start, last - own.start)
            parts.append(
                Part(number, block.stop - block.start, among_own, slice(first - block.start, last - block.start))
            )
    return parts


def are_shared(slices: Iterable[slice], num_envs: int) -> bool:
    """Whether any block belongs to several actors that have these environments each."""
    return not all(part.is_complete for own in slices for part in parts_of(own, num_envs))


def obs_moments(obs: FloatArray, own: slice) -> RmsState:
    """Moments of the observations [T + 1, B or K, D] of a block in the T steps of a rollout."""
    return compute_batch_moments(obs[:-1, own].reshape(-1, obs.shape[-1]))


def return_moments(returns: NDArray[np.float64], own: slice) -> RmsState:
    """Moments of the discounted returns [T, B or K] of a block."""
    return compute_batch_moments(returns[:, own].reshape(-1, 1))
