"""How the instances of an environment are told apart while they are built: by a number, and by what they draw.

A constructor reads its number from the environment variable DDP_PPO_ENV_INDEX: all instances of a run that are open at
the same time have different ones. What constructors draw from global generators has a seed for each instance.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ddp_ppo.envs.untouched import untouched
from ddp_ppo.maths.seeding import Purpose, integer_seed, seed_global_generators
from ddp_ppo.processes.lifetime import inherited

INDEX_VARIABLE = "DDP_PPO_ENV_INDEX"
EVALUATION, TRAINING = 0, 1  # what an instance is for: part of the name of its stream
_one_at_a_time = threading.RLock()  # the variable belongs to the process


@dataclass(frozen=True, kw_only=True)
class Instances:
    """The instances of one batch.

    Attributes:
        offset: what DDP_PPO_ENV_INDEX has above an instance's number in its batch.
        seed, key: with that number, the name of the stream that its constructor draws from.
    """

    offset: int = 0
    seed: int = 0
    key: tuple[int, ...] = (EVALUATION,)

    @contextmanager
    def building(self, number: int) -> Iterator[None]:
        """Holds while the instance with this number, or a batch that begins with it, is built."""
        with _one_at_a_time, untouched(), inherited({INDEX_VARIABLE: str(self.offset + number)}):
            seed_global_generators(integer_seed(self.seed, Purpose.CONSTRUCTION, *self.key, number))
            yield


ALONE = Instances()
