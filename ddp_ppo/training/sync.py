"""What learners agree on after each round: averaged parameters, merged statistics, metrics, and whether to stop.

These are all collectives of a round but for averaged gradients, checkpoints and models; every rank comes here equally
often.

Shapes: W learners, D observation size, P parameters.
"""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from ddp_ppo.distributed.group import LearnerGroup, average_metrics, remember_folder
from ddp_ppo.learners.interface import Learner
from ddp_ppo.maths.moments import RmsState, merge_rms_states
from ddp_ppo.policies.normalizer import reward_scale
from ddp_ppo.protocols import ActorReport, Arrays, FloatArray
from ddp_ppo.runs.agreement import average_states
from ddp_ppo.runs.metric_table import (
    BUFFER_SIZE,
    OBS_COUNT,
    OBS_MEAN,
    OBS_STD_MAX,
    OBS_STD_MIN,
    REWARD_SCALE,
    MetricTable,
)
from ddp_ppo.training.message import EpisodeSums, Message, merged


class ConsistencyError(RuntimeError):
    """Learners that must be equal are not; the message names the rank and what differs."""


class Statistics(NamedTuple):
    """The global history of raw observations and of discounted returns."""

    obs: RmsState
    returns: RmsState


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What all learners know after a round.

    Attributes:
        statistics: the history with this round merged into it.
        metrics: of all learners together.
        stop_signal: the signal that ends the run, None to go on.
    """

    statistics: Statistics
    metrics: dict[str, float]
    stop_signal: int | None


class Sync:
    """Keeps the learners of a run together: when parameters are averaged, and whether they are everyone's."""

    def __init__(
        self, group: LearnerGroup, learner: Learner, table: MetricTable, *, interval: int, num_rounds: int
    ) -> None:
        """Averages learners that drift apart after every `interval` rounds and after the last one.

        Args:
            table: says what becomes of several learners' values of a metric.
        """
        self._group, self._learner, self._table = group, learner, table
        self._interval, self._num_rounds = interval, num_rounds
        self._rounds_apart = 0  # since learners were equal
        self._terms: tuple[str, ...] = ()  # names of the reward's terms, the same on all ranks

    @property
    def is_apart(self) -> bool:
        """Whether learners differ, so that the parameters of this one are not everyone's."""
        return self._rounds_apart > 0

    def state_dict(self) -> dict[str, Any]:
        """What the next rounds depend on, as plain values."""
        return {"rounds_apart": self._rounds_apart, "terms": list(self._terms)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where `state_dict` was called."""
        self._rounds_apart = int(state["rounds_apart"])
        self._terms = tuple(state.get("terms", ()))  # missing in checkpoints of earlier versions

    def after_round(
        self,
        num_done: int,
        history: Statistics,
        *,
        reports: Sequence[ActorReport],
        metrics: Mapping[str, float],
        stop_signal: int | None,
    ) -> Outcome:
        """Averages parameters where that is due, and merges the round of all learners.

        Args:
            num_done: rounds that are done, this one included.
            history: the statistics that the round was sampled with.
            reports: of this learner's actors.
            metrics: of this learner's train step; the same names on every rank.
            stop_signal: what this process has been asked to end with.

        Raises:
            ConsistencyError: what has to be equal on all ranks is not.
        """
        if self._learner.is_drifting and self._group.num_learners > 1:
            self._rounds_apart += 1
            if num_done == self._num_rounds or num_done % self._interval == 0:
                self._average()
        messages = self._exchange(history, reports, metrics, stop_signal)
        _require_equal(messages, free=self._learner.common().tensors if self.is_apart else ())
        statistics = Statistics(
            merge_rms_states([history.obs, *(message.obs_moments for message in messages)]),
            merge_rms_states([history.returns, *(message.return_moments for message in messages)]),
        )
        return Outcome(
            statistics=statistics,
            metrics=_together(messages, self._table) | normalizer_metrics(statistics),
            stop_signal=max(message.stop_signal for message in messages) or None,
        )

    def agreed_parameters(self) -> FloatArray:
        """What acts by agreement of all learners, [P], on rank 0; elsewhere this learner's. A collective if apart."""
        own = self._learner.acting_parameters()
        states = [{"parameters": each} for each in self._group.gather(own)] if self.is_apart else []
        agreed: FloatArray = (
            average_states(states, averaged=["parameters"], counted=[])["parameters"] if states else own
        )
        return agreed

    def agreed_state(self, states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The state of a learner on which learners with these states agree. No collective."""
        averaged, counted = self._learner.common()
        return average_states(states, averaged={"parameters", *averaged}, counted=counted)

    def _average(self) -> None:
        """Averages what is common by one all_reduce over one flat vector."""
        common = self._learner.common()
        tensors = list(common.tensors.values())
        vector = torch.cat([tensor.reshape(-1) for tensor in tensors])
        self._group.average(vector)
        for tensor, part in zip(tensors, torch.split(vector, [tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(part.reshape(tensor.shape))
        for count in common.counted.values():
            count.round_()
        self._rounds_apart = 0

    def _exchange(
        self,
        history: Statistics,
        reports: Sequence[ActorReport],
        metrics: Mapping[str, float],
        stop_signal: int | None,
    ) -> list[Message]:
        """The messages of all learners; again where one of them has met a term of the reward that is new to others."""
        known = _checksum_of(self._terms)
        own = Message(
            stop_signal=stop_signal or 0,
            terms_checksum=_checksum_of({*self._terms, *term_names(reports)}),
            episodes=EpisodeSums.of(reports),
            checksums=_checksums(self._learner, history),
            obs_moments=merged([report.obs_rms_moments for report in reports], len(history.obs["mean"])),
            return_moments=merged([report.return_rms_moments for report in reports], len(history.returns["mean"])),
            metrics={**metrics, **reward_metrics(reports, self._terms)},
        )
        messages = [own.unpack(row) for row in self._group.exchange(own.pack())]
        if all(message.terms_checksum == known for message in messages):
            return messages
        found = {name for names in self._group.gather(term_names(reports)) for name in names}
        self._terms = self._group.share(tuple(sorted({*self._terms, *found})))
        return self._exchange(history, reports, metrics, stop_signal)


def share_folder(group: LearnerGroup, folder: Path | None, start_round: int) -> Path:
    """Rank 0's run folder, on every rank and for later attempts of this launch.

    Raises:
        ConsistencyError: this rank starts after another round than rank 0.
    """
    shared, first = group.share((folder, start_round))
    if first != start_round:
        raise ConsistencyError(
            f"rank {group.rank} starts after round {start_round}, rank 0 after round {first}: every machine has to "
            f"see the same checkpoints; put output_dir on a file system that they share, or copy {shared}"
        )
    if folder is not None:
        remember_folder(os.environ, folder)
    return Path(shared)


def term_names(reports: Sequence[ActorReport]) -> list[str]:
    """The names of the reward's terms in these actors' reports."""
    return sorted({name for report in reports for name in report.reward_terms})


def reward_metrics(reports: Sequence[ActorReport], names: Sequence[str]) -> dict[str, float]:
    """Means over the environments of these terms of the reward, which are 0 for an actor that has not met them.

    A value that is not finite says nothing; NaN where the actors that have met a term report nothing else.
    """
    metrics = {}
    for name in names:
        met = [report.reward_terms[name] for report in reports if name in report.reward_terms]
        found = [(report.reward_terms.get(name, 0.0), report.num_envs) for report in reports]
        finite = [(value, number) for value, number in found if math.isfinite(value)]
        has_told = any(map(math.isfinite, met)) or not met
        total = sum(value * number for value, number in finite)
        mean = total / sum(number for _, number in finite) if has_told else math.nan
        metrics[f"reward/{name.removeprefix('reward_')}"] = mean
    return metrics


def normalizer_metrics(statistics: Statistics) -> dict[str, float]:
    """The state of the normaliser; without what the run does not normalise, of which there are no samples."""
    obs, returns = statistics
    metrics: dict[str, float] = {}
    if obs["count"]:
        mean, var = obs["mean"], obs["var"]
        metrics |= {OBS_COUNT: obs["count"], OBS_MEAN: float(max(mean.max(), -mean.min()))}
        metrics |= {OBS_STD_MIN: math.sqrt(var.min()), OBS_STD_MAX: math.sqrt(var.max())}
    return metrics | ({REWARD_SCALE: reward_scale(returns)} if returns["count"] else {})


def _together(messages: Sequence[Message], table: MetricTable) -> dict[str, float]:
    """The metrics of all learners together, as the table says: means weighted by samples, or sums."""
    per_learner = [dict(message.metrics) for message in messages]
    metrics = average_metrics(per_learner, [one[BUFFER_SIZE] for one in per_learner])
    for row in (row for row in table if row.name in metrics):
        values = [one[row.name] for one in per_learner]
        if row.reduction in ("sum", "max"):
            known = [value for value in values if not math.isnan(value)]
            metrics[row.name] = (sum(known) if row.reduction == "sum" else max(known)) if known else math.nan
        if row.has_extremes and len(values) > 1:
            metrics |= {f"{row.name}_min": min(values), f"{row.name}_max": max(values)}
    metrics |= _episode_metrics(EpisodeSums(*map(sum, zip(*(message.episodes for message in messages), strict=True))))
    first_checksums = {next(iter(message.checksums.values())) for message in messages}
    metrics["sync/distinct_parameters"] = float(len(first_checksums))
    return metrics


def _episode_metrics(sums: EpisodeSums) -> dict[str, float]:
    count = sums.episodes
    return {
        "rollout/episodes": count,
        "rollout/episode_return_mean": sums.returns / count if count else math.nan,
        "rollout/episode_length_mean": sums.lengths / count if count else math.nan,
        "rollout/terminated_fraction": sums.terminations / count if count else math.nan,
    }


def _checksums(learner: Learner, history: Statistics) -> dict[str, int]:
    """Of what learners have in common, trained parameters first, and of what is equal after every round."""
    always: Arrays = {
        "obs_rms_state": np.concatenate([history.obs["mean"], history.obs["var"], [history.obs["count"]]]),
        "return_rms_state": np.concatenate([history.returns["mean"], history.returns["var"]]),
        "learning_rate": np.array(learner.learning_rate),
    }
    common = {name: tensor.cpu().numpy() for name, tensor in learner.common().tensors.items()}
    return {name: zlib.crc32(array.tobytes()) for name, array in {**common, **always}.items()}


def _checksum_of(names: Iterable[str]) -> int:
    return zlib.crc32("\n".join(sorted(names)).encode())


def _require_equal(messages: Sequence[Message], *, free: Iterable[str]) -> None:
    """Raises ConsistencyError where learners differ in something that is not free to differ."""
    for name in (name for name in messages[0].checksums if name not in set(free)):
        values = [message.checksums[name] for message in messages]
        # What most ranks have counts as right; of two ranks nobody can say, and rank 0's does.
        right = max(dict.fromkeys(values), key=values.count)
        if wrong := [rank for rank, value in enumerate(values) if value != right]:
            raise ConsistencyError(
                f"{name} of rank {wrong[0]} differs from rank {values.index(right)}'s; the last checkpoint is intact"
            )
