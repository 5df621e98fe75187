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

from ddp_ppo.actor_pool import ActorError, ActorPool
from ddp_ppo.config import Config
from ddp_ppo.distributed import Learners
from ddp_ppo.episodes import evaluation_seeds
from ddp_ppo.finite import NonFiniteError
from ddp_ppo.metrics import Console
from ddp_ppo.moments import empty_rms_state
from ddp_ppo.networks import initial_parameters
from ddp_ppo.plan import Plan, load_initial, prepare
from ddp_ppo.ppo import ALONE, NO_TEAM, PPO, Averaging
from ddp_ppo.ppo_cuda import page_locked
from ddp_ppo.ppo_workers import Team, trained_of
from ddp_ppo.recorder import NullRecorder, Recorder
from ddp_ppo.rollout import SharedBlock
from ddp_ppo.sampler import Frozen, Sampled, Sampler, actor_jobs
from ddp_ppo.seeding import Purpose, stream
from ddp_ppo.sync import Outcome, Statistics, average_optimized, exchange, optimized


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


class StopRequest:
    """TERM and INT ask the run to end after the round; a second one ends the process at once."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._previous = {number: signal.signal(number, self._handle) for number in (signal.SIGTERM, signal.SIGINT)}

    def _handle(self, number: int, frame: object) -> None:
        if self.signal is not None:
            os._exit(128 + number)  # files only ever get their final names whole, and the actors die with us
        self.signal = number

    def restore(self) -> None:
        """Gives the signals back to whoever had them."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)


def train(config: Config, *, environ: Mapping[str, str], console: Console | None = None) -> TrainingResult:
    """Trains one configuration as one of the processes that `environ` (torchrun's variables, or none) describes.

    Returns:
        how the run ended; the same for every learner but for the folder's use.

    Raises:
        ConfigError, EnvError, CheckpointError: the user's mistakes, before anything was started or written.
        ActorError, CollectiveError: a process of the run failed.
    """
    console = console or Console()
    plan = prepare(config, environ=environ)
    if plan.topology.is_surplus:
        for note in plan.topology.notes:
            console.say(note)
        return TrainingResult(None)
    torch.set_num_threads(plan.torch_threads)
    stop = StopRequest()
    try:
        with ExitStack() as stack:
            return _Run(plan, console, stop, stack).loop()
    finally:
        stop.restore()


class _Run:
    """One learner's state over the rounds: its learner, its actors, the statistics, and what it writes down."""

    def __init__(self, plan: Plan, console: Console, stop: StopRequest, stack: ExitStack) -> None:
        config, topology = plan.config, plan.topology
        self.plan, self.config, self.stop = plan, config, stop
        recorder = Recorder(plan, console) if topology.rank == 0 else NullRecorder(console)
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
        self.learners = stack.enter_context(Learners(topology, timeout_seconds=config.collective_timeout_seconds))
        stack.enter_context(page_locked(self.block.memory, torch.device(topology.device), self.recorder.say))
        self.round = self.env_steps = 0
        self.elapsed_seconds = self.checkpoint_seconds = 0.0
        self.best_return = self.eval_return = math.nan
        self.statistics = Statistics(empty_rms_state(plan.network.obs_size), empty_rms_state(1))
        self.learner = self._make_learner()
        self.pool.wait_ready()
        if plan.resumed is not None:
            self._restore(plan.resumed[1])
        else:
            self.learners.broadcast(optimized(self.learner))
        self.recorder.open_logs(self.round, self.env_steps)

    def _make_learner(self) -> PPO:
        config, plan = self.config, self.plan
        if config.init_from is None:
            parameters = initial_parameters(plan.network, stream(config.seed, Purpose.INIT), config.init_log_std)
        else:
            parameters, *statistics = load_initial(plan)
            self.statistics = Statistics(*statistics)
        is_gradient_mode = config.sync_mode == "gradients" and plan.topology.num_learners > 1
        averaging = Averaging(
            self.learners.average if is_gradient_mode else ALONE.gradient,
            self.learners.average_scalar,
            is_gradient_mode,
        )
        trained = trained_of(self.block.arrays)
        trained.parameters[:] = parameters
        device, rank = torch.device(plan.topology.device), plan.topology.rank
        return PPO(config, plan.network, trained, device=device, averaging=averaging, team=self._team(), rank=rank)

    def _team(self) -> Team:
        if not self.plan.has_critic_worker:
            return NO_TEAM
        pool = self.pool
        return Team(
            self.block.arrays, True, pool.begin_assist, pool.end_assist, pool.is_assistant_lost, pool.replace_assistant
        )

    def loop(self) -> TrainingResult:
        """Rounds until the last one or a stop request; the one place that reads like the algorithm."""
        config, plan = self.config, self.plan
        session_start, first_round, first_elapsed = time.perf_counter(), self.round, self.elapsed_seconds
        stop_signal: int | None = None
        while self.round < plan.num_rounds and stop_signal is None:
            started = time.perf_counter()
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
            ended = time.perf_counter()
            self.elapsed_seconds = first_elapsed + ended - session_start
            times = {
                "sample": sampled - started,
                "train": trained - sampled,
                "sync": synced - trained,
                "record": ended - synced + self.checkpoint_seconds,
                "round": ended - started + self.checkpoint_seconds,
            }
            row = self._row(outcome.metrics | evaluation, times, data)
            seconds_left = (ended - session_start) / (self.round - first_round) * (plan.num_rounds - self.round)
            self.recorder.row(row, seconds_left=seconds_left, is_last=is_last)
            # After the row: a run that is killed in between goes on from the checkpoint before, and drops the row.
            self.checkpoint_seconds = 0.0
            if is_last or self.round % config.checkpoint_interval == 0:
                self._checkpoint()
                self.checkpoint_seconds = time.perf_counter() - ended
        if self.round == first_round:
            self.recorder.say(f"nothing to do: all {plan.num_rounds} rounds are done")
        path = self.recorder.path
        return TrainingResult(path, self.round, self.env_steps, self.eval_return, self.best_return, stop_signal)

    def _require_finite_parameters(self) -> None:
        """Nothing is sampled, evaluated or saved with a parameter that is not finite."""
        bad = np.flatnonzero(~np.isfinite(self.learner.policy.flat.data.cpu().numpy()))
        if len(bad):
            where = f"rank {self.plan.topology.rank}, round {self.round}: parameter {bad[0]} is not finite"
            self.recorder.event("non_finite", self.round, where, is_shown=False)
            raise NonFiniteError(f"{where}; the last checkpoint is intact")

    def _frozen(self) -> Frozen:
        """The policy as it is now, to sample or evaluate with."""
        self._require_finite_parameters()
        return Frozen(self.learner.policy.flat.data.cpu().numpy(), self.statistics.obs, self.statistics.returns)

    def _sample(self) -> Sampled:
        """This round's rollout; where an actor fails for good, what was learned is saved before the run ends."""
        try:
            return self.sampler.collect(self.round, self._frozen())
        except ActorError as error:
            self.recorder.event("actor_error", self.round, str(error).splitlines()[0], is_shown=False)
            if error.where is not None and error.state is not None:
                columns = self.sampler.columns_of(error.job, self.round)
                self.recorder.evidence(error.state, columns, error.where, self.round)
            if self.round and self.plan.topology.num_learners == 1:  # several would have to gather
                self._checkpoint()
            raise

    def _train(self, data: Sampled) -> dict[str, float]:
        self.learner.set_obs_rms_state(data.obs_rms_state)
        try:
            _, metrics = self.learner.train_step(
                data.rollout, round_index=self.round, num_rounds=self.plan.num_rounds, reward_scale=data.reward_scale
            )
        except NonFiniteError as error:
            where = f"rank {self.plan.topology.rank}, round {self.round + 1}: {error}"
            self.recorder.event("non_finite", self.round, where, is_shown=False)
            raise NonFiniteError(f"{where}; the last checkpoint is intact") from None
        return metrics

    def _sync(self, data: Sampled, metrics: dict[str, float]) -> Outcome:
        """Averages parameters where due, and merges the round of all learners."""
        config = self.config
        averages_gradients = config.sync_mode == "gradients"
        is_last = self.round == self.plan.num_rounds
        is_due = not averages_gradients and (is_last or self.round % config.param_sync_interval == 0)
        if is_due:
            average_optimized(self.learner, self.learners)
        seconds = [actor["sample_seconds"] + actor["annotate_seconds"] for actor in data.stats]
        metrics["time/idle_seconds"] = max(seconds) - sum(seconds) / len(seconds)
        return exchange(
            self.learners,
            self.learner,
            self.statistics,
            stats=data.stats,
            metrics=metrics,
            stop_signal=self.stop.signal,
            is_synced=is_due or averages_gradients,
        )

    def _evaluate(self) -> dict[str, float]:
        """Deterministic episodes with fixed seeds on rank 0 where due; the best model is the one with the best mean."""
        interval = self.config.eval_interval
        is_due = self.round == self.plan.num_rounds or (interval > 0 and self.round % interval == 0)
        result = {"eval/return_mean": math.nan, "eval/return_std": math.nan, "eval/length_mean": math.nan}
        if not is_due or self.plan.topology.rank != 0:
            return result
        now = self._frozen()
        episodes = self.sampler.evaluate(evaluation_seeds(self.config.seed, self.config.eval_episodes), now)
        returns = np.array([episode.episode_return for episode in episodes])
        self.eval_return = float(returns.mean())
        is_best = math.isnan(self.best_return) or self.eval_return > self.best_return
        self.best_return = self.eval_return if is_best else self.best_return
        about: dict[str, Any] = {"round": self.round, "env_steps": self.env_steps, "eval_return": self.eval_return}
        if self.config.normalize_reward:
            about["return_rms_state"] = {
                "mean": float(self.statistics.returns["mean"][0]),
                "var": float(self.statistics.returns["var"][0]),
                "count": self.statistics.returns["count"],
            }
        self.recorder.model(now, about, is_best=is_best)
        length = float(np.mean([episode.length for episode in episodes]))
        return dict(zip(result, (self.eval_return, float(returns.std()), length), strict=True))

    def _row(self, metrics: dict[str, float], times: dict[str, float], data: Sampled) -> dict[str, float]:
        """What is written down of a round."""
        annotate = max(actor["annotate_seconds"] for actor in data.stats)
        split = {
            "sample": max(0.0, times["sample"] - annotate),  # with overlap most of it passes unseen
            "annotate": annotate,
            "transfer": metrics.pop("time/transfer_seconds"),
            "train": times["train"],
            "sync": times["sync"],
            "record": times["record"],
            "idle": metrics.pop("time/idle_seconds"),
            "round": times["round"],
        }
        split["train"] -= split["transfer"]
        steps = self.config.transitions_per_round(self.plan.topology.num_learners)
        return {
            "round": float(self.round),
            "env_steps": float(self.env_steps),
            **metrics,
            "rollout/policy_lag": float(data.policy_lag),
            "time/steps_per_second": steps / times["round"],
            "time/elapsed_seconds": self.elapsed_seconds,
            **{f"time/{name}_seconds": value for name, value in split.items()},
        }

    def _checkpoint(self) -> None:
        """Gathers every rank's state and has it written as one file."""
        self._require_finite_parameters()
        ranks = self.learners.gather({"learner": self.learner.state_dict(), "actors": self.sampler.states})
        content = {
            "env_steps": self.env_steps,
            "elapsed_seconds": self.elapsed_seconds,
            "obs_rms_state": self.statistics.obs,
            "return_rms_state": self.statistics.returns,
            "best_return": self.best_return,
            "eval_return": self.eval_return,
            "ranks": ranks,
        }
        self.recorder.checkpoint(self.round, content)

    def _restore(self, content: dict[str, Any]) -> None:
        """Continues from a checkpoint; a rank that it does not know starts from rank 0's parameters.

        Environments go on in mid-episode where their state was saved for the same number of environments.
        """
        topology, ranks = self.plan.topology, content["ranks"]
        own = ranks[topology.rank] if topology.rank < len(ranks) else ranks[0]
        learner = {**own["learner"]}
        for name in ("parameters", "exp_avg", "exp_avg_sq"):
            learner[name] = torch.from_numpy(learner[name])
        if self.learner.load_state_dict(learner):
            self.recorder.say("note: log_std of the checkpoint was outside its range and has been brought back")
        actors = [state for rank in ranks for state in rank["actors"]]
        first = topology.rank * topology.num_actors
        has_same_shape = len(actors) == topology.num_learners * topology.num_actors and all(
            len(state["episode_return"]) == topology.envs_per_actor for state in actors
        )
        if not has_same_shape or content["env"]["backend"] != self.plan.env.backend:
            self.recorder.say("note: the checkpoint has other actors, environments or backend; episodes start anew")
        else:
            self.pool.restore(actors[first : first + topology.num_actors])
            if actors[0]["env"] is None:
                self.recorder.say(
                    "note: this environment cannot be saved (no get_state and set_state): episodes start anew, and the "
                    "run will not equal an unbroken one"
                )
        self.statistics = Statistics(content["obs_rms_state"], content["return_rms_state"])
        self.round, self.env_steps = content["round"], content["env_steps"]
        self.elapsed_seconds = content["elapsed_seconds"]
        self.best_return, self.eval_return = content["best_return"], content["eval_return"]
        if self.config.sync_mode == "gradients":  # the checkpoint may be of a run that averaged parameters
            average_optimized(self.learner, self.learners)
