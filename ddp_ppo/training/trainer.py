"""The training loop of one learner: publish, sample, train, sync, record, once a round.

All collectives of a round are called from `_sync`, except those that a learner received as functions for gradient
averaging. World size 1, one environment and no GPU are ordinary values here.

Shapes: T rollout_length, B environments of this learner, D observation size, P parameters.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ddp_ppo.config.settings import Config
from ddp_ppo.distributed.group import CollectiveError, LearnerGroup
from ddp_ppo.learners.interface import Workplace
from ddp_ppo.processes.stop_request import CutShort, StopRequest
from ddp_ppo.runs.anomalies import overlap_at_reset
from ddp_ppo.runs.metrics import Console, time_metrics
from ddp_ppo.sampling.actor_pool import ActorError, ActorPool
from ddp_ppo.sampling.episodes import evaluation_seeds
from ddp_ppo.sampling.finite import NonFiniteError, first_in_parameters
from ddp_ppo.sampling.shared_memory import SharedBlock, page_locked
from ddp_ppo.training.diagnosis import find_cause
from ddp_ppo.training.plan import Plan, prepare
from ddp_ppo.training.recorder import FaultRecorder, Recorder
from ddp_ppo.training.resume import Standing, is_finite, restore_rank
from ddp_ppo.training.sampler import Frozen, Sampled, Sampler, actor_jobs
from ddp_ppo.training.sync import (
    ConsistencyError,
    Outcome,
    Statistics,
    average_common,
    exchange,
    reward_metrics,
    share_folder,
    term_names,
)

_COLLECT_SECONDS = 1.5  # that rank 0 waits for the others' state when a run ends early
_EVENTS = {  # what a failure is called in events.jsonl
    ActorError: "actor_error",
    CollectiveError: "collective_error",
    ConsistencyError: "consistency_error",
    NonFiniteError: "non_finite",
}


@dataclass(frozen=True)
class TrainingResult:
    """How a run ended.

    Attributes:
        folder: the run's folder; None for a surplus process.
        rounds, env_steps: done in all, earlier sessions of a resumed run included.
        eval_return, best_return: last and best mean evaluation return; NaN without one.
        stop_signal: the signal that ended the run early, None if it ran to its end.
    """

    folder: Path | None
    rounds: int = 0
    env_steps: int = 0
    eval_return: float = math.nan
    best_return: float = math.nan
    stop_signal: int | None = None


def train(
    config: Config, *, environ: Mapping[str, str] | None = None, console: Console | None = None
) -> TrainingResult:
    """Trains one configuration, to the end or until the process gets INT, TERM or HUP.

    In a program of your own: call it from the main thread, below `if __name__ == "__main__":`, as the actors that it
    starts import the program again. Set OPENBLAS_NUM_THREADS=1 before NumPy is imported, as the command line does.

    Args:
        config: of `load_config("task.yaml", ["seed=3"])`, or `Config(env_id="CartPole-v1", seed=3)`.
        environ: torchrun's variables, which say which of the learners this process is; None for those of the process.
        console: where to print; `Console(open(os.devnull, "w"))` is silent.

    Returns:
        how the run ended; the same for every learner but for the folder's use.

    Raises:
        ConfigError, EnvError, CheckpointError: the user's mistakes, before anything was started or written.
        ActorError, CollectiveError: a process of the run failed.
    """
    console = console or Console()
    plan = prepare(config, environ=os.environ if environ is None else environ)
    if plan.topology.is_surplus:
        for note in plan.topology.notes:
            console.say(note)
        return TrainingResult(None)
    torch.set_num_threads(plan.kind.torch_threads(plan))
    stop = StopRequest()
    try:
        with ExitStack() as stack:
            return _Run(plan, console, stop, stack).loop()
    except CutShort:  # while the actors were starting
        return TrainingResult(None, stop_signal=stop.signal)
    finally:
        stop.restore()


class _Run:
    """One learner's state over the rounds: its learner, its actors, the statistics, and what it writes down."""

    def __init__(self, plan: Plan, console: Console, stop: StopRequest, stack: ExitStack) -> None:
        config, topology = plan.config, plan.topology
        self.plan, self.config, self.stop = plan, config, stop
        recorder = (Recorder if topology.rank == 0 else FaultRecorder)(plan, console)
        self.recorder = stack.enter_context(recorder)
        for note in plan.notes:
            self.recorder.say(f"note: {note}")
        self.block = SharedBlock(plan.block_shapes)
        stack.callback(self.block.close)
        self.pool = stack.enter_context(
            ActorPool(
                actor_jobs(plan, self.block),
                timeout_seconds=config.actor_timeout_seconds,
                max_restarts=config.max_actor_restarts,
                on_restart=lambda what: self.recorder.event("actor_restart", self.round, what),
            )
        )
        self.sampler = Sampler(plan, self.block, self.pool)
        self.group = stack.enter_context(LearnerGroup(topology, timeout_seconds=config.collective_timeout_seconds))
        start_round = plan.resumed[1]["round"] if plan.resumed is not None else 0
        self.recorder.join(share_folder(self.group, self.recorder.path, start_round))
        stack.enter_context(page_locked(self.block.memory, topology.device, self.recorder.say))
        self.terms: list[str] | None = None  # of the reward
        self.round = self.env_steps = 0
        self.elapsed_seconds = self.checkpoint_seconds = 0.0
        self.best_return = self.eval_return = math.nan
        self.unwritten_best: tuple[Frozen, dict[str, Any]] | None = None
        start = plan.starting_point()
        self.statistics = Statistics(start.obs_rms_state, start.return_rms_state)
        workplace = Workplace(start=start, group=self.group, arrays=self.block.arrays, pool=self.pool)
        self.learner = plan.kind.make(plan, workplace)
        with stop.cuttable():
            self.pool.wait_ready()
        if plan.resumed is not None:
            self._restore(plan.resumed[1])
        else:
            self.group.broadcast(list(self.learner.common().tensors.values()))
        self.recorder.open_logs(self.round, self.env_steps)
        self.kept = self._standing()  # that of the last whole round, for an end in mid-round

    def loop(self) -> TrainingResult:
        """All rounds, or those until a stop request or a failure, which leave what whole rounds have learnt."""
        try:
            return self._rounds()
        except CutShort:
            return self._cut_short()
        except Exception as error:  # whatever it is, foreseen or not: what whole rounds have learnt is kept
            if self.stop.is_overdue and isinstance(error, CollectiveError):  # those that left were asked to stop too
                return self._cut_short()
            kind = _EVENTS.get(type(error), "error")
            headline = str(error).partition("\n")[0] if kind != "error" else repr(error)
            self.recorder.event(kind, self.kept.round, headline, is_shown=False)
            self.group.leave(headline)
            if not isinstance(error, ConsistencyError):  # then nobody knows which rank's state is right
                self._save_kept()
            raise

    def _rounds(self) -> TrainingResult:
        """Rounds until the last one or a stop request; the one place that reads like the algorithm."""
        config, plan = self.config, self.plan
        session_start, first_round, first_elapsed = time.perf_counter(), self.round, self.elapsed_seconds
        stop_signal: int | None = None
        while self.round < plan.num_rounds and stop_signal is None:
            started = time.perf_counter()
            with self.stop.cuttable():
                data = self._sample()
                sampled = time.perf_counter()
                metrics = self._train(data)
            trained = time.perf_counter()
            self.round += 1
            outcome = self._sync(data, metrics)
            self.statistics, stop_signal = outcome.statistics, outcome.stop_signal
            self.env_steps += config.transitions_per_round(plan.topology.num_learners)
            synced = time.perf_counter()
            is_last = self.round == plan.num_rounds or stop_signal is not None
            evaluation = self._evaluate()
            self._write_best()
            ended = time.perf_counter()
            self.elapsed_seconds = first_elapsed + ended - session_start
            times = {
                "sample": sampled - started,
                "annotate": data.annotate_seconds,
                "train": trained - sampled,
                "sync": synced - trained,
                "record": ended - synced + self.checkpoint_seconds,
                "round": ended - started + self.checkpoint_seconds,
            }
            done = {"round": float(self.round), "env_steps": float(self.env_steps)}
            lag = {"rollout/policy_lag": float(data.policy_lag)}
            steps = config.transitions_per_round(plan.topology.num_learners)
            timed = time_metrics(outcome.metrics, times, num_steps=steps, elapsed_seconds=self.elapsed_seconds)
            row = done | outcome.metrics | evaluation | lag | timed
            seconds_left = (ended - session_start) / (self.round - first_round) * (plan.num_rounds - self.round)
            self.recorder.row(row, seconds_left=seconds_left, is_last=is_last)
            if data.overlap:
                self.recorder.anomaly(overlap_at_reset(data.overlap), self.round, self.env_steps)
            # After the row: a run that is killed in between goes on from the checkpoint before, and drops the row.
            self.checkpoint_seconds = 0.0
            self.kept = self._standing()
            if is_last or self.round % config.checkpoint_interval == 0:
                self._checkpoint()
                self.checkpoint_seconds = time.perf_counter() - ended
        if self.round == first_round:
            self.recorder.say(f"nothing to do: all {plan.num_rounds} rounds are done")
        return self._result(stop_signal)

    def _result(self, stop_signal: int | None) -> TrainingResult:
        path = self.recorder.path
        return TrainingResult(path, self.round, self.env_steps, self.eval_return, self.best_return, stop_signal)

    def _standing(self) -> Standing:
        """After the rounds that are done."""
        own = {"learner": self.learner.state_dict(), "actors": self.sampler.states}
        done = (self.round, self.env_steps, self.elapsed_seconds)
        return Standing(*done, *self.statistics, self.best_return, self.eval_return, own)

    def _cut_short(self) -> TrainingResult:
        """Gives the round up that takes too long for a stop request."""
        self.pool.close(0.0)
        kept = self.kept
        self.group.leave(f"asked to stop by {signal.Signals(self.stop.signal or signal.SIGTERM).name}")
        self._save_kept()
        self.recorder.event("cut_short", kept.round, f"the stop request has cut round {kept.round + 1} short")
        self.round, self.env_steps = kept.round, kept.env_steps
        return self._result(self.stop.signal)

    def _save_kept(self) -> None:
        """Saves the last whole round, without a collective: where every rank can still say what it had then."""
        kept = self.kept
        ranks = self.group.collect(f"round {kept.round}", kept.own, seconds=_COLLECT_SECONDS) if kept.round else []
        if ranks and is_finite(ranks):
            self.recorder.checkpoint(kept.round, kept.content(ranks))

    def _frozen(self) -> Frozen:
        """The policy as it is now, to sample, evaluate or save; none of it with a parameter that is not finite."""
        parameters = self.learner.acting_parameters()
        if bad := first_in_parameters(self.plan.network, parameters):
            raise self._non_finite(f"after round {self.round}: the parameter {bad}")
        return Frozen(parameters, self.statistics.obs, self.statistics.returns)

    def _non_finite(self, what: str) -> NonFiniteError:
        return NonFiniteError(f"rank {self.plan.topology.rank}, {what}; the last checkpoint is intact")

    def _sample(self) -> Sampled:
        """This round's rollout, and evidence where an actor has met a value that is not finite."""
        try:
            return self.sampler.collect(self.round, self._frozen())
        except ActorError as error:
            if error.where is not None and error.state is not None:
                slices = self.sampler.slices_of(error.job.actor_id, self.round)
                self.recorder.evidence(error.state, slices, error.where, self.round)
            raise

    def _train(self, data: Sampled) -> dict[str, float]:
        try:
            done = self.env_steps / self.plan.num_env_steps
            _, metrics = self.learner.train_step(data.rollout, round_index=self.round, done=done)
        except NonFiniteError as error:
            is_mean = not self.learner.is_drifting and self.plan.topology.num_learners > 1
            note = "; it is the mean of all learners, the cause may lie with another one" if is_mean else ""
            raise self._explained(data, f"{error}{note}") from None
        return metrics

    def _explained(self, data: Sampled, seen: str) -> NonFiniteError:
        """The error of an update, with the first cause of what it has seen, and evidence of it."""
        words, where = find_cause(self.learner, data.rollout, seen)
        if where is not None:
            actor_id, env = divmod(where.env, self.plan.topology.envs_per_actor)
            words = f"actor {actor_id}: {words}"
            slices, state = self.sampler.slices_of(actor_id, self.round), self.kept.own["actors"][actor_id]
            self.recorder.evidence(state, slices, where._replace(env=env)._asdict(), self.round)
        return self._non_finite(f"round {self.round + 1}: {words}")

    def _sync(self, data: Sampled, metrics: dict[str, float]) -> Outcome:
        """Averages parameters where due, and merges the round of all learners."""
        config = self.config
        is_drifting = self.learner.is_drifting
        is_last = self.round == self.plan.num_rounds
        is_due = is_drifting and (is_last or self.round % config.param_sync_interval == 0)
        if is_due:
            average_common(self.learner, self.group)
        seconds = [report.sample_seconds + report.annotate_seconds for report in data.reports]
        metrics["time/idle_seconds"] = max(seconds) - sum(seconds) / len(seconds)
        if self.terms is None:  # in its first round every rank learns what rank 0 calls them
            self.terms = self.group.share(term_names(data.reports))
        metrics |= reward_metrics(data.reports, self.terms)
        return exchange(
            self.group,
            self.learner,
            self.statistics,
            reports=data.reports,
            metrics=metrics,
            stop_signal=self.stop.signal,
            is_synced=is_due or not is_drifting,
        )

    def _evaluate(self) -> dict[str, float]:
        """Deterministic episodes with fixed seeds on rank 0 where due; writes the model, and keeps the best mean's."""
        interval = self.config.eval_interval
        is_due = self.round == self.plan.num_rounds or (interval > 0 and self.round % interval == 0)
        result = {"eval/return_mean": math.nan, "eval/return_std": math.nan, "eval/length_mean": math.nan}
        if not is_due or self.plan.topology.rank != 0:
            return result
        now = self._frozen()
        seeds = evaluation_seeds(self.config.seed, self.config.eval_episodes)
        try:
            with self.stop.cuttable():
                episodes = self.sampler.evaluate(seeds, now)
        except CutShort:  # the round itself is whole
            self.pool.close(0.0)
            return result
        fault = next((episode.fault for episode in episodes if episode.fault), None)
        if fault is not None:
            what = f"the evaluation of round {self.round} does not count: {fault}"
            self.recorder.event("non_finite", self.round, what)
        returns = np.array([math.nan if fault else episode.episode_return for episode in episodes])
        self.eval_return = float(returns.mean())
        about = self._about_model()
        self.recorder.model(now, about, is_best=False)
        best = self.best_return if self.unwritten_best is None else self.unwritten_best[1]["eval_return"]
        if self.eval_return > best or (math.isnan(best) and not math.isnan(self.eval_return)):
            self.unwritten_best = now, about
        length = float(np.mean([episode.length for episode in episodes]))
        return dict(zip(result, (self.eval_return, float(returns.std()), length), strict=True))

    def _about_model(self) -> dict[str, Any]:
        """Where the model of this moment comes from."""
        about: dict[str, Any] = {"round": self.round, "env_steps": self.env_steps, "eval_return": self.eval_return}
        if self.config.normalize_reward:
            about["return_rms_state"] = {
                "mean": float(self.statistics.returns["mean"][0]),
                "var": float(self.statistics.returns["var"][0]),
                "count": self.statistics.returns["count"],
            }
        return about

    def _write_best(self) -> None:
        """Counts the best model once it is written; one that a full disk does not take is tried after every round."""
        if self.unwritten_best is not None and self.recorder.model(*self.unwritten_best, is_best=True):
            self.best_return, self.unwritten_best = self.unwritten_best[1]["eval_return"], None

    def _checkpoint(self) -> None:
        """Gathers every rank's state and has it written as one file."""
        self._frozen()
        self.recorder.checkpoint(self.round, self.kept.content(self.group.gather(self.kept.own)))

    def _restore(self, content: dict[str, Any]) -> None:
        """Continues from a checkpoint."""
        restore_rank(content, self.plan, self.learner, self.pool, self.recorder.say)
        self.statistics = Statistics(content["obs_rms_state"], content["return_rms_state"])
        self.round, self.env_steps = content["round"], content["env_steps"]
        self.elapsed_seconds = content["elapsed_seconds"]
        self.best_return, self.eval_return = content["best_return"], content["eval_return"]
