"""Evaluates the policy that all learners agree on, writes it as the current model, and keeps the best one.

Rank 0 alone evaluates and writes; the others come along, as the policy may be an average.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ddp_ppo.processes.stop_request import CutShort, StopRequest
from ddp_ppo.sampling.episodes import ENDLESS_STEPS, Episode, evaluation_seeds
from ddp_ppo.training.diagnosis import Diagnosis
from ddp_ppo.training.plan import Plan
from ddp_ppo.training.recorder import FaultRecorder
from ddp_ppo.training.resume import RunState
from ddp_ppo.training.sampler import Frozen, Sampler
from ddp_ppo.training.sync import Statistics, Sync


class Moment(NamedTuple):
    """When a policy was what it is: after so many rounds and environment steps of all learners."""

    round: int
    env_steps: int


class Evaluator:
    """The last and the best evaluation of a run, and the models that are written of it.

    Attributes:
        eval_return, best_return: last and best mean return; NaN without one. The best one counts once it is written.
    """

    def __init__(
        self,
        plan: Plan,
        sampler: Sampler,
        *,
        sync: Sync,
        diagnosis: Diagnosis,
        recorder: FaultRecorder,
        stop: StopRequest,
    ) -> None:
        self._plan, self._sampler, self._sync, self._diagnosis = plan, sampler, sync, diagnosis
        self._recorder, self._stop = recorder, stop
        self._seeds = evaluation_seeds(plan.config.seed, plan.config.eval_episodes)
        self._unwritten_best: tuple[Frozen, dict[str, Any]] | None = None
        self._written = -1  # the round of the current model
        self._has_told_of_cut = False
        self.eval_return = self.best_return = math.nan

    def resume(self, done: RunState) -> None:
        """Goes on after these rounds; the model of the last one has been written if an evaluation was due.

        The best model on the disk counts as the best one, whatever round the run goes on from.
        """
        self.eval_return, self.best_return = done.eval_return, self._recorder.best_return(done.best_return)
        self._written = done.round if self._is_due(done.round) else -1

    def after_round(self, moment: Moment, statistics: Statistics) -> dict[str, float]:
        """The metrics of an evaluation, NaN where none is due or on another rank; every rank comes here.

        Raises:
            NonFiniteError: a parameter is not finite.
        """
        result = {"eval/return_mean": math.nan, "eval/return_std": math.nan, "eval/length_mean": math.nan}
        if self._is_due(moment.round):
            parameters = self._sync.agreed_parameters()
            self._diagnosis.require_finite(parameters, moment.round)
            now = Frozen(parameters, *statistics)
            if self._plan.topology.rank == 0 and (episodes := self._episodes(now)):
                result |= self._judge(episodes, now, moment)
        self._write_best()
        return result

    def write_model(self, moment: Moment, now: Frozen) -> None:
        """Writes the current model, unless an evaluation of the same moment has done so."""
        if self._written != moment.round:
            self._write_current(now, moment, self._about(now, moment))

    def _is_due(self, round_index: int) -> bool:
        interval = self._plan.config.eval_interval
        return round_index == self._plan.num_rounds or (interval > 0 and round_index % interval == 0)

    def _episodes(self, now: Frozen) -> list[Episode]:
        """Deterministic episodes with fixed seeds; none where a stop request cuts them short: the round is complete."""
        try:
            with self._stop.cuttable():
                return self._sampler.evaluate(self._seeds, now)
        except CutShort:
            self._sampler.stop()
            return []

    def _judge(self, episodes: Sequence[Episode], now: Frozen, moment: Moment) -> dict[str, float]:
        """What the episodes say, as metrics; one with a value that is not finite makes the evaluation count as none."""
        fault = next((episode.fault for episode in episodes if episode.fault), None)
        if fault is not None:
            what = f"the evaluation of round {moment.round} does not count: {fault}"
            self._recorder.event("non_finite", moment.round, what)
        self._tell_of_cut(episodes, moment)
        returns = np.array([math.nan if fault else episode.episode_return for episode in episodes])
        self.eval_return = float(returns.mean())
        about = {**self._about(now, moment), "eval_return": self.eval_return}
        self._write_current(now, moment, about)
        best = self.best_return if self._unwritten_best is None else self._unwritten_best[1]["eval_return"]
        if self.eval_return > best or (math.isnan(best) and not math.isnan(self.eval_return)):
            self._unwritten_best = now, about
        return {
            "eval/return_mean": self.eval_return,
            "eval/return_std": float(returns.std()),
            "eval/length_mean": float(np.mean([episode.length for episode in episodes])),
        }

    def _tell_of_cut(self, episodes: Sequence[Episode], moment: Moment) -> None:
        """Says once that episodes have no end: their returns are those of so many steps."""
        num_cut = sum(episode.end == "cut" for episode in episodes)
        if num_cut and not self._has_told_of_cut:
            self._has_told_of_cut = True
            what = f"{num_cut} of {len(episodes)} evaluation episodes had no end: cut after {ENDLESS_STEPS:,} steps"
            self._recorder.event("evaluation_cut", moment.round, f"{what}; max_episode_steps sets another limit")

    def _about(self, now: Frozen, moment: Moment) -> dict[str, Any]:
        """Where a model of this moment comes from."""
        about: dict[str, Any] = {"round": moment.round, "env_steps": moment.env_steps}
        if self._plan.config.normalize_reward:
            state = now.return_rms_state
            mean, var = float(state["mean"][0]), float(state["var"][0])
            about["return_rms_state"] = {"mean": mean, "var": var, "count": state["count"]}
        return about

    def _write_current(self, now: Frozen, moment: Moment, about: dict[str, Any]) -> None:
        if self._recorder.model(now, about, is_best=False):
            self._written = moment.round

    def _write_best(self) -> None:
        """Counts the best model once it is written; one that a full disk does not take is tried after every round."""
        if self._unwritten_best is not None and self._recorder.model(*self._unwritten_best, is_best=True):
            self.best_return, self._unwritten_best = self._unwritten_best[1]["eval_return"], None
