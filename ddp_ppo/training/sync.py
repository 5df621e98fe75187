"""What learners agree on after each round: averaged parameters, merged statistics, metrics, and whether to stop.

Every rank comes here once a round; these are all collectives of a run but for averaged gradients and checkpoints.

Shapes: W learners, D observation size, P parameters.
"""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ddp_ppo.distributed.group import LearnerGroup, average_metrics, remember_folder
from ddp_ppo.learners.interface import Learner
from ddp_ppo.maths.moments import RmsState, empty_rms_state, merge_rms_states
from ddp_ppo.protocols import ActorReport, Arrays

_TOTALS = ("buffer_size", "train/gradient_steps")  # shown as sums over learners; every other metric is a mean
_EPISODES = ("episodes", "episode_return_sum", "episode_len_sum", "episode_terminations")


class ConsistencyError(RuntimeError):
    """LearnerGroup that must be equal are not; the message names the rank and what differs."""


class Statistics(NamedTuple):
    """The global history of raw observations and of discounted returns."""

    obs: RmsState
    returns: RmsState


@dataclass(frozen=True)
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


def average_common(learner: Learner, group: LearnerGroup) -> None:
    """Averages parameters and optimizer state of all learners by one all_reduce over one flat vector.

    The moments are averaged too: kept local they would push each learner away from the average again, and ranks would
    not be equal after a sync.
    """
    common = learner.common()
    tensors = list(common.tensors.values())
    vector = torch.cat([tensor.reshape(-1) for tensor in tensors])
    group.average(vector)
    for tensor, part in zip(tensors, torch.split(vector, [tensor.numel() for tensor in tensors]), strict=True):
        tensor.copy_(part.reshape(tensor.shape))
    for count in common.counted.values():
        count.round_()


def exchange(
    group: LearnerGroup,
    learner: Learner,
    history: Statistics,
    *,
    reports: Sequence[ActorReport],
    metrics: Mapping[str, float],
    stop_signal: int | None,
    is_synced: bool,
) -> Outcome:
    """Merges one round of all learners.

    Args:
        history: the statistics that the round was sampled with.
        reports: of this learner's actors.
        metrics: of this learner's train step; the same names on every rank.
        stop_signal: what this process has been asked to end with.
        is_synced: parameters and optimizer state have to be equal on all ranks.

    Raises:
        ConsistencyError: they are not, or the statistics or the learning rate are not.
    """
    common = {name: tensor.cpu().numpy() for name, tensor in learner.common().tensors.items()}
    hashes = _hashes({**common, **_not_trained(learner, history)})
    parts = [
        [float(stop_signal or 0)],
        [float(sum(getattr(report, name) for report in reports)) for name in _EPISODES],
        list(hashes.values()),
        _packed(_merged([report.obs_rms_moments for report in reports], len(history.obs["mean"]))),
        _packed(_merged([report.return_rms_moments for report in reports], 1)),
        list(metrics.values()),
    ]
    rows = group.exchange(np.concatenate([np.asarray(part, np.float64) for part in parts]))
    ends = np.cumsum([len(part) for part in parts])
    stops, episodes, hash_rows, obs_rows, return_rows, metric_rows = np.split(rows, ends[:-1], axis=1)
    first = 0 if is_synced else len(common)
    _require_equal(list(hashes)[first:], hash_rows[:, first:])
    statistics = Statistics(
        merge_rms_states([history.obs, *(_unpacked(row) for row in obs_rows)]),
        merge_rms_states([history.returns, *(_unpacked(row) for row in return_rows)]),
    )
    per_learner = [dict(zip(metrics, row.tolist(), strict=True)) for row in metric_rows]
    together = average_metrics(per_learner, [one["buffer_size"] for one in per_learner])
    together |= {name: sum(one[name] for one in per_learner) for name in _TOTALS}
    together |= _episode_metrics(*episodes.sum(axis=0).tolist())
    together["sync/distinct_parameters"] = float(len(np.unique(hash_rows[:, 0])))
    return Outcome(statistics, together, int(stops.max()) or None)


def term_names(reports: Sequence[ActorReport]) -> list[str]:
    """The names of the reward's terms in these actors' reports."""
    return sorted({name for report in reports for name in report.reward_terms})


def reward_metrics(reports: Sequence[ActorReport], names: Sequence[str]) -> dict[str, float]:
    """Means over the actors of these terms of the reward; NaN where none of them has anything finite to report."""
    metrics = {}
    for name in names:
        values = [value for report in reports if math.isfinite(value := report.reward_terms.get(name, math.nan))]
        metrics[f"reward/{name.removeprefix('reward_')}"] = sum(values) / len(values) if values else math.nan
    return metrics


def _episode_metrics(count: float, return_sum: float, length_sum: float, terminations: float) -> dict[str, float]:
    return {
        "rollout/episodes": count,
        "rollout/episode_return_mean": return_sum / count if count else math.nan,
        "rollout/episode_length_mean": length_sum / count if count else math.nan,
        "rollout/terminated_fraction": terminations / count if count else math.nan,
    }


def _not_trained(learner: Learner, history: Statistics) -> Arrays:
    """What has to be equal on all ranks after every round."""
    return {
        "obs_rms_state": np.concatenate([history.obs["mean"], history.obs["var"], [history.obs["count"]]]),
        "return_rms_state": np.concatenate([history.returns["mean"], history.returns["var"]]),
        "learning_rate": np.array(learner.learning_rate),
    }


def _hashes(arrays: Arrays) -> dict[str, float]:
    """Checksums that differ where two ranks differ in a single bit."""
    return {name: float(zlib.crc32(array.tobytes())) for name, array in arrays.items()}


def _require_equal(names: list[str], rows: NDArray[np.float64]) -> None:
    for column, name in enumerate(names):
        values, first, counts = np.unique(rows[:, column], return_index=True, return_counts=True)
        if len(values) == 1:
            continue
        # What most ranks have counts as right; of two ranks nobody can say, and rank 0's does.
        right = min(range(len(values)), key=lambda i: (-counts[i], first[i]))
        rank = np.flatnonzero(rows[:, column] != values[right])[0]
        raise ConsistencyError(
            f"{name} of rank {rank} differs from rank {first[right]}'s; the last checkpoint is intact"
        )


def _merged(moments: Sequence[RmsState | None], size: int) -> RmsState:
    """This learner's moments of the round: those of its actors together."""
    return merge_rms_states([empty_rms_state(size), *(one for one in moments if one is not None)])


def _packed(state: RmsState) -> list[float]:
    return [state["count"], *state["mean"].tolist(), *state["var"].tolist()]


def _unpacked(row: NDArray[np.float64]) -> RmsState:
    size = (len(row) - 1) // 2
    return {"mean": row[1 : 1 + size].copy(), "var": row[1 + size :].copy(), "count": float(row[0])}
