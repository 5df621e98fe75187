"""The training loop of one learner: sample, train, sync, evaluate, record, checkpoint, once per round.

World size 1, one environment and no GPU are ordinary values here.

Shapes: T rollout_length, B environments of this learner, D observation size, P parameters.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ddp_ppo.config.settings import Config, ConfigError
from ddp_ppo.distributed.group import CollectiveError
from ddp_ppo.learners.interface import require_metrics
from ddp_ppo.processes.stop_request import CutShort, StopRequest
from ddp_ppo.runs.anomalies import outside_space, overlap_at_reset
from ddp_ppo.runs.console import Console
from ddp_ppo.sampling.actor_pool import ActorError
from ddp_ppo.sampling.finite import NonFiniteError
from ddp_ppo.training.assembly import Parts
from ddp_ppo.training.clock import Clock
from ddp_ppo.training.evaluator import Moment
from ddp_ppo.training.history import History, OnRound, TrainingResult
from ddp_ppo.training.plan import Plan, prepare
from ddp_ppo.training.resume import RunState, restore_actors, restore_learner
from ddp_ppo.training.sampler import Frozen, Sampled
from ddp_ppo.training.sync import ConsistencyError, Outcome
from ddp_ppo.training.time_split import with_time_split


def train(
    config: Config,
    *,
    environ: Mapping[str, str] | None = None,
    console: Console | None = None,
    on_round: OnRound | None = None,
    may_exit: bool = False,
) -> TrainingResult:
    """Trains one configuration, to the end or until the process gets INT, TERM or HUP.

    Call it below `if __name__ == "__main__":`, as the actors that it starts import the program again; from any thread,
    though signals stop it in the main thread only. Set OPENBLAS_NUM_THREADS=1 before NumPy is imported, as commands do.

    Args:
        config: of `load_config("task.yaml", ["seed=3"])`, or `Config(env_id="CartPole-v1", seed=3)`.
        environ: torchrun's variables, which say which of the learners this process is; None for those of the process.
        console: where to print; `Console.silent()` says nothing.
        on_round: is called with a copy of its row of metrics after each round, which is recorded by then. If it
            returns False, the run ends with a checkpoint and a model; any other answer lets it go on. With several
            learners each process calls its own, and any may end it. What it raises ends the run, which is saved.
        may_exit: whether the process does nothing else, so that a second signal, or a run that cannot stop within 6 s,
            ends it; else KeyboardInterrupt (INT) or SystemExit is raised.

    Raises:
        ConfigError, EnvError, CheckpointError: the user's mistakes, before anything was started or written.
        ActorError, CollectiveError: a process of the run failed.
    """
    console = console or Console()
    _require_possible(on_round)
    plan = prepare(config, environ=os.environ if environ is None else environ)
    if plan.topology.is_surplus:
        for note in plan.topology.notes:
            console.say(note)
        return TrainingResult(home=None)
    return _train(plan, console, on_round, may_exit=may_exit)


def _require_possible(on_round: OnRound | None) -> None:
    """Raises ConfigError where the caller cannot train, or not like this."""
    if on_round is not None and not callable(on_round):
        raise ConfigError(f"on_round: {on_round!r} is not a function of a round's row")
    if multiprocessing.current_process().daemon:
        raise ConfigError(
            "a worker of multiprocessing.Pool cannot start actors, as it is a daemon; use "
            "concurrent.futures.ProcessPoolExecutor"
        )
    try:
        os.getcwd()
    except FileNotFoundError as error:
        raise ConfigError("the current folder does not exist any more; change to another one") from error


def _train(plan: Plan, console: Console, on_round: OnRound | None, *, may_exit: bool) -> TrainingResult:
    """Trains, and leaves the caller's process as it was."""
    with StopRequest(may_exit=may_exit) as stop, ExitStack() as after:
        after.callback(gc.collect)  # parts refer to each other: else the rollouts' memory would stay for a while
        after.callback(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(plan.kind.torch_threads(plan))
        try:
            with ExitStack() as stack:
                return _Run(plan, console, stop=stop, stack=stack, on_round=on_round).loop()
        except CutShort:  # while the actors were starting
            return TrainingResult(home=None, stop_signal=stop.signal)


class _Run:
    """One learner's part of a run; `done` is where it stands after its last complete round."""

    def __init__(
        self, plan: Plan, console: Console, *, stop: StopRequest, stack: ExitStack, on_round: OnRound | None
    ) -> None:
        start = plan.starting_point()
        self.plan, self.stop, self.on_round = plan, stop, on_round
        self.done = self.start = RunState.first(start) if plan.resumed is None else RunState.of(plan.resumed.content)
        self.is_over = self.done.round >= plan.num_rounds
        self.stop_signal: int | None = None
        self.clock, self.history = Clock(), History()
        parts = Parts(plan, start, console=console, stop=stop, stack=stack, num_done=lambda: self.done.round)
        self.recorder, self.pool, self.group = parts.recorder, parts.pool, parts.group
        self.learner, self.sampler, self.sync = parts.learner, parts.sampler, parts.sync
        self.diagnosis, self.evaluator, self.saver = parts.diagnosis, parts.evaluator, parts.saver
        self.meter = parts.meter
        self.has_listener = self.group.is_any(on_round is not None)  # some rank may end the run after any round
        self._restore()
        self.recorder.open_logs(self.done.round, self.done.env_steps)

    def _restore(self) -> None:
        """Goes on from the checkpoint, or makes all learners start equal."""
        resumed, say = self.plan.resumed, self.recorder.say
        if resumed is None:
            self.group.broadcast(list(self.learner.common().tensors.values()))
        else:
            self.sync.load_state_dict(restore_learner(resumed, self.plan, self.learner, say))
            restore_actors(resumed, self.plan, self.pool, say)
            self.evaluator.resume(self.done)
        self.done = replace(self.done, sync=self.sync.state_dict(), own=self._own())

    def _own(self) -> dict[str, Any]:
        return {"learner": self.learner.state_dict(), "actors": self.sampler.states}

    def loop(self) -> TrainingResult:
        """All rounds, or those until a request to end or a failure, which leave what complete rounds have learnt."""
        try:
            return self._rounds()
        except CutShort:
            return self._cut_short()
        except BaseException as error:  # whatever it is, foreseen or not
            if self.stop.is_overdue and isinstance(error, CollectiveError):  # those that left were asked to stop too
                return self._cut_short()
            if not self.stop.is_given_up:
                self._fail(error)
            raise

    def _rounds(self) -> TrainingResult:
        """The algorithm: rounds until the last one, a stop request, or the end that a program asks for."""
        while not self.is_over:
            with self.stop.cuttable():
                with self.clock("sample"):
                    data = self._sample()
                with self.clock("train"):
                    metrics = self._train(data)
            with self.clock("sync"):
                outcome = self._sync(data, metrics)
            with self.clock("record"):
                moment = Moment(self.done.round + 1, self.done.env_steps + self.plan.transitions_per_round)
                evaluation = self.evaluator.after_round(moment, outcome.statistics)
                row = self._record(moment, data, outcome, evaluation)
                if self.has_listener and self._is_ended(row):
                    self.is_over = True
                # After the row: a run that is killed in between goes on from the checkpoint before, and drops the row.
                if self.is_over or self.done.round % self.plan.config.checkpoint_interval == 0:
                    self._checkpoint()
        if self.done.round == self.start.round:
            self.recorder.say(f"nothing to do: all {self.plan.num_rounds} rounds are done")
        return self._result()

    def _sample(self) -> Sampled:
        """This round's rollout."""
        parameters = self.learner.acting_parameters()
        self.diagnosis.require_finite(parameters, self.done.round)
        try:
            return self.sampler.collect(self.done.round, Frozen(parameters, *self.done.statistics))
        except ActorError as error:
            self.diagnosis.of_actor(error, self.done)
            raise

    def _train(self, data: Sampled) -> dict[str, float]:
        """The metrics of the learner's step."""
        part = self.done.env_steps / self.plan.num_env_steps
        try:
            metrics = self.learner.train_step(data.rollout, round_index=self.done.round, done=part)[1]
        except NonFiniteError as error:
            raise self.diagnosis.of_update(error, data.rollout, self.done) from None
        require_metrics(self.plan.config.learner, metrics)
        return metrics

    def _sync(self, data: Sampled, metrics: dict[str, float]) -> Outcome:
        """What all learners know of the round."""
        return self.sync.after_round(
            self.done.round + 1,
            self.done.statistics,
            reports=data.reports,
            metrics={**metrics, "time/idle_seconds": data.idle_seconds, **self.meter.read()},
            stop_signal=self.stop.signal,
        )

    def _record(
        self, moment: Moment, data: Sampled, outcome: Outcome, evaluation: Mapping[str, float]
    ) -> dict[str, float]:
        """Completes the round: writes its row, and notes where the run stands and whether this was the last one."""
        seconds = {**self.clock.lap(), "annotate": data.annotate_seconds}
        elapsed, steps = self.done.elapsed_seconds + seconds["round"], self.plan.transitions_per_round
        row = {
            **{name: float(value) for name, value in moment._asdict().items()},
            **outcome.metrics,
            **evaluation,
            "rollout/policy_lag": float(data.policy_lag),
        }
        row = with_time_split(row, seconds, num_steps=steps, elapsed_seconds=elapsed)
        self.stop_signal = outcome.stop_signal
        self.is_over = self.stop_signal is not None or moment.round >= self.plan.num_rounds
        per_round = (elapsed - self.start.elapsed_seconds) / (moment.round - self.start.round)
        self.recorder.row(row, seconds_left=per_round * (self.plan.num_rounds - moment.round), is_last=self.is_over)
        if data.overlap:
            self.recorder.anomaly(overlap_at_reset(data.overlap), *moment)
        if data.outside:
            self.recorder.anomaly(outside_space(data.outside), *moment)
        self.history.add(row)
        self.done = RunState(
            **moment._asdict(),
            elapsed_seconds=elapsed,
            statistics=outcome.statistics,
            best_return=self.evaluator.best_return,
            eval_return=self.evaluator.eval_return,
            sync=self.sync.state_dict(),
            own=self._own(),
        )
        return row

    def _is_ended(self, row: Mapping[str, float]) -> bool:
        """Whether a program, on some rank, ends the run after this round; it may change its copy of the row."""
        answer: object = None
        if self.on_round is not None:
            with self.stop.cuttable():
                answer = self.on_round(dict(row))
        is_ended = isinstance(answer, bool | np.bool_) and not answer  # None, 0 and an empty array are not False
        return self.group.is_any(is_ended)

    def _checkpoint(self) -> None:
        """Saves every rank's state; no rank's with a parameter that is not finite."""
        self.diagnosis.require_finite(self.learner.acting_parameters(), self.done.round)
        self.saver.save(self.done)

    def _cut_short(self) -> TrainingResult:
        """Gives the round up that takes too long for a stop request."""
        self.sampler.stop()
        self.stop_signal = self.stop.signal
        self.group.leave(f"asked to stop by {signal.Signals(self.stop_signal or signal.SIGTERM).name}")
        self.saver.save_alone(self.done)
        words = f"the stop request has cut round {self.done.round + 1} short"
        self.recorder.event("cut_short", self.done.round, words)
        return self._result()

    def _fail(self, error: BaseException) -> None:
        """Notes a failure, tells the other learners, and saves what complete rounds have learnt."""
        self.group.leave(self.diagnosis.note(error, self.done))
        if not isinstance(error, ConsistencyError):  # then nobody knows which rank's state is right
            self.saver.save_alone(self.done)

    def _result(self) -> TrainingResult:
        return TrainingResult(
            home=self.recorder.path,
            rounds=self.done.round,
            env_steps=self.done.env_steps,
            eval_return=self.evaluator.eval_return,
            best_return=self.evaluator.best_return,
            stop_signal=self.stop_signal,
            unwritten=tuple(self.recorder.unwritten),
            metrics=self.history.arrays(),
        )
