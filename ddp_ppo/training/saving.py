"""What a run leaves on disk to go on from: every rank's state in one file, and the model that all agree on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ddp_ppo.distributed.group import LearnerGroup
from ddp_ppo.training.evaluator import Evaluator, Moment
from ddp_ppo.training.recorder import FaultRecorder
from ddp_ppo.training.resume import RunState, is_finite
from ddp_ppo.training.sampler import Frozen
from ddp_ppo.training.sync import Sync

_COLLECT_SECONDS = 1.5  # that rank 0 waits for the others' state when a run ends early


class Saver:
    """Writes checkpoints; with each of them the current model."""

    def __init__(self, group: LearnerGroup, sync: Sync, *, evaluator: Evaluator, recorder: FaultRecorder) -> None:
        self._group, self._sync = group, sync
        self._evaluator, self._recorder = evaluator, recorder

    def save(self, done: RunState) -> None:
        """Gathers every rank's state and writes it: a collective."""
        self._write(done, self._group.gather(done.own))

    def save_alone(self, done: RunState) -> None:
        """The same without a collective, where a run ends early: if every rank can still say what it had then."""
        ranks = self._group.collect(f"round {done.round}", done.own, seconds=_COLLECT_SECONDS) if done.round else []
        if is_finite(ranks):
            self._write(done, ranks)

    def _write(self, done: RunState, ranks: Sequence[Mapping[str, Any]]) -> None:
        states = [rank["learner"] for rank in ranks]
        if not states:
            return  # on every rank but the first
        agreed = self._sync.agreed_state(states) if done.is_apart else None
        parameters = np.asarray((agreed or states[0])["parameters"])
        self._evaluator.write_model(Moment(done.round, done.env_steps), Frozen(parameters, *done.statistics))
        self._recorder.checkpoint(done.round, done.content(ranks, agreed))
