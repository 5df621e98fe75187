"""What each learner tells the others after a round, in one row of numbers.

Every rank's row has the same layout: the names in it are the same on all ranks.

Shapes: D observation size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.maths.moments import RmsState, empty_rms_state, merge_rms_states
from ddp_ppo.protocols import ActorReport


class EpisodeSums(NamedTuple):
    """Sums over the episodes that ended in a round."""

    episodes: float
    returns: float
    lengths: float
    terminations: float

    @staticmethod
    def of(reports: Sequence[ActorReport]) -> EpisodeSums:
        """Of one learner's actors; returns are added block by block, whoever steps the environments."""
        ended = sorted(pair for one in reports for pair in zip(one.episode_ends, one.episode_returns, strict=True))
        blocks = groupby(ended, key=lambda pair: pair[0].block)
        return EpisodeSums(
            episodes=sum(report.episodes for report in reports),
            returns=sum(sum(value for _, value in block) for _, block in blocks),
            lengths=sum(report.episode_len_sum for report in reports),
            terminations=sum(report.episode_terminations for report in reports),
        )


@dataclass(frozen=True, kw_only=True)
class Message:
    """One learner's round.

    Attributes:
        stop_signal: the signal that asks the run to end; 0 without one.
        terms_checksum: of the names of the reward's terms that this learner knows.
        episodes: those that ended with its actors.
        checksums: of what learners have in common, by name; two that differ in a single bit differ in theirs.
        obs_moments, return_moments: of this round's observations [D] and discounted returns [1] alone.
        metrics: of its train step, by name.
    """

    stop_signal: int
    terms_checksum: int
    episodes: EpisodeSums
    checksums: Mapping[str, int]
    obs_moments: RmsState
    return_moments: RmsState
    metrics: Mapping[str, float]

    def pack(self) -> NDArray[np.float64]:
        """The message as a row of numbers; whole ones below 2**53 stay exact."""
        parts: list[Sequence[float] | NDArray[np.float64]] = [
            [self.stop_signal, self.terms_checksum],
            self.episodes,
            list(self.checksums.values()),
            *_numbers_of(self.obs_moments),
            *_numbers_of(self.return_moments),
            list(self.metrics.values()),
        ]
        return np.concatenate([np.asarray(part, np.float64) for part in parts])

    def unpack(self, row: NDArray[np.float64]) -> Message:
        """Another learner's message of the same round, from its row, which has the layout of this one's."""
        numbers = iter(row.tolist())
        return Message(  # in the order of `pack`
            stop_signal=int(next(numbers)),
            terms_checksum=int(next(numbers)),
            episodes=EpisodeSums(*islice(numbers, len(EpisodeSums._fields))),
            checksums={name: int(next(numbers)) for name in self.checksums},
            obs_moments=_moments_from(numbers, len(self.obs_moments["mean"])),
            return_moments=_moments_from(numbers, len(self.return_moments["mean"])),
            metrics={name: next(numbers) for name in self.metrics},
        )


def merged(moments: Sequence[Mapping[int, RmsState]], size: int) -> RmsState:
    """The moments of all blocks of one learner together, from its actors; those of no samples if there are none."""
    of_blocks = {block: state for of_actor in moments for block, state in of_actor.items()}
    return merge_rms_states([empty_rms_state(size), *(of_blocks[block] for block in sorted(of_blocks))])


def _numbers_of(state: RmsState) -> tuple[NDArray[np.float64], ...]:
    return np.array([state["count"]]), state["mean"], state["var"]


def _moments_from(numbers: Iterator[float], size: int) -> RmsState:
    count = next(numbers)
    mean, var = (np.array(list(islice(numbers, size))) for _ in range(2))
    return {"mean": mean, "var": var, "count": count}
