"""The trajectories that DiscoRL samples from: the latest ones, each equally likely, however old its policy is.

Shapes: T transitions, B trajectories, C capacity.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ddp_ppo.learners.disco.batch import Trajectories


class ReplayBuffer:
    """The last `capacity` trajectories, on the device where they are trained on."""

    def __init__(self, capacity: int, device: torch.device) -> None:
        self.capacity = capacity
        self._device = device
        self._arrays: Trajectories | None = None  # [T(+1), C, ...], a ring
        self._num_added = 0

    def __len__(self) -> int:
        """Trajectories that can be sampled."""
        return min(self._num_added, self.capacity)

    def add(self, batch: Trajectories) -> None:
        """Takes a copy of B trajectories; they replace the oldest ones, or all where these have another length."""
        if self._arrays is None or len(batch.act) != len(self._arrays.act):
            self._num_added = 0
            self._arrays = Trajectories(
                *(x.new_zeros(len(x), self.capacity, *x.shape[2:], device=self._device) for x in batch)
            )
        count = batch.act.shape[1]
        places = torch.arange(self._num_added, self._num_added + count, device=self._device) % self.capacity
        for array, new in zip(self._arrays, batch, strict=True):
            array[:, places[-self.capacity :]] = new[:, -self.capacity :].to(self._device)
        self._num_added += count

    def sample(self, index: Tensor) -> Trajectories:
        """The trajectories with these numbers, from 0 for the oldest one to len - 1."""
        assert self._arrays is not None
        places = (index.to(self._device) + self._num_added - len(self)) % self.capacity
        return Trajectories(*(array[:, places] for array in self._arrays))

    def state_dict(self) -> dict[str, Tensor]:
        """All trajectories, the oldest one first; empty before the first one."""
        if self._arrays is None:
            return {}
        return {name: array.cpu() for name, array in self.sample(torch.arange(len(self)))._asdict().items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continues from a state dict; a smaller capacity keeps the newest of its trajectories, 0 none."""
        self._arrays, self._num_added = None, 0
        if state and self.capacity:
            self.add(Trajectories(**state))
