"""The training loop of one learner: publish, sample, train, sync, record, once a round.

All collectives of a round are called from `_sync`, except those that a learner received as functions for gradient
averaging. World size 1, one environment and no GPU are ordinary values here.

Shapes: T rollout_length, B environments of this learner, D observation size, P parameters.
"""

from __future__ import annotations

import hashlib
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
from ddp_ppo.anomalies import Watch
from ddp_ppo.checkpoint import copy_atomically, save_checkpoint, save_model
from ddp_ppo.config import Config, save_effective
from ddp_ppo.distributed import Learners, average_metrics
from ddp_ppo.episodes import evaluation_seeds
from ddp_ppo.events import EventLog
from ddp_ppo.finite import NonFiniteError
from ddp_ppo.metrics import Console, CsvLog, TensorBoardLog, progress_line
from ddp_ppo.moments import RmsState, empty_rms_state, merge_rms_states
from ddp_ppo.networks import initial_parameters
from ddp_ppo.plan import Plan, env_arguments, load_initial, prepare
from ddp_ppo.ppo import ALONE, NO_TEAM, PPO, Averaging
from ddp_ppo.ppo_workers import Team
from ddp_ppo.rollout import SharedBlock
from ddp_ppo.run_folder import RunFolder
from ddp_ppo.sampler import Frozen, Sampled, Sampler, actor_jobs
from ddp_ppo.seeding import Purpose, stream

_HASH_BYTES = 6  # of a sha256 as a number that float64 holds exactly
_TOTALS = ("buffer_size", "train/gradient_steps")  # shown as sums over learners; every other metric is a mean


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
    torch.set_num_threads(plan.num_threads)
    stop = StopRequest()
    try:
        with ExitStack() as stack:
            if plan.topology.rank == 0:
                for note in plan.notes:
                    console.say(f"note: {note}")
            return _Run(plan, console, stop, stack).loop()
    finally:
        stop.restore()


class _Run:
    """One learner's state over the rounds: its learner, its actors, the statistics, the files of rank 0."""

    def __init__(self, plan: Plan, console: Console, stop: StopRequest, stack: ExitStack) -> None:
        config, topology = plan.config, plan.topology
        self.plan, self.config, self.console, self.stop = plan, config, console, stop
        self.is_first = topology.rank == 0
        self.folder = stack.enter_context(self._open_folder()) if self.is_first else None
        if self.folder is not None:
            self.events = EventLog(self.folder.path / "events.jsonl")
            stack.callback(self.events.close)
        self.block = SharedBlock(plan.block_shapes)
        stack.callback(self.block.close)
        self.pool = stack.enter_context(
            ActorPool(
                actor_jobs(plan, self.block),
                timeout_seconds=config.actor_timeout_seconds,
                max_restarts=config.max_actor_restarts,
                on_restart=self._report_restart,
            )
        )
        self.learners = stack.enter_context(Learners(topology, timeout_seconds=config.collective_timeout_seconds))
        is_gradient_mode = config.sync_mode == "gradients" and topology.num_learners > 1
        averaging = Averaging(
            self.learners.average if is_gradient_mode else ALONE.gradient,
            self.learners.average_scalar,
            is_gradient_mode,
        )
        self.obs_rms_state: RmsState = empty_rms_state(plan.network.obs_size)
        if config.init_from is None:
            parameters = initial_parameters(plan.network, stream(config.seed, Purpose.INIT), config.init_log_std)
        else:
            parameters, self.obs_rms_state = load_initial(plan)
        device = torch.device(topology.device)
        self.block.arrays["learner_parameters"][:] = parameters
        self.learner = PPO(
            config,
            plan.network,
            self.block.arrays["learner_parameters"],
            device=device,
            averaging=averaging,
            team=self._team(),
            rank=topology.rank,
        )
        self.sampler = Sampler(plan, self.block, self.pool)
        self.return_rms_state: RmsState = empty_rms_state(1)
        self.round = 0
        self.env_steps = 0
        self.elapsed_seconds = 0.0
        self.best_return = self.eval_return = self.recent_return = math.nan
        self.pool.wait_ready()
        if plan.resumed is not None:
            self._restore(plan.resumed[1])
        self.learners.broadcast(self._optimized() if config.resume is None else [])
        if self.is_first:
            assert self.folder is not None
            save_effective(config, self.folder.path / "config.yaml")
            self.csv = CsvLog(self.folder.metrics, after_round=self.round)
            stack.callback(self.csv.close)
            self.tensorboard = TensorBoardLog(self.folder.tensorboard, after_step=self.env_steps)
            stack.callback(self.tensorboard.close)
            self.watch = Watch()

    def _team(self) -> Team:
        count = self.plan.num_gradient_workers
        if not count:
            return NO_TEAM
        pool = self.pool
        return Team(self.block.arrays, count, lambda: pool.begin_assist(count), pool.end_assist, pool.check_assistants)

    def _report_restart(self, what: str) -> None:
        self.console.say(f"note: {what}")
        if self.is_first:
            self.events.write("actor_restart", round_index=self.round, what=what)

    def loop(self) -> TrainingResult:
        """Rounds until the last one or a stop request; the one place that reads like the algorithm."""
        config, plan = self.config, self.plan
        session_start, first_round, first_elapsed = time.perf_counter(), self.round, self.elapsed_seconds
        stop_signal: int | None = None
        while self.round < plan.num_rounds and stop_signal is None:
            started = time.perf_counter()
            data = self._collect()
            sampled = time.perf_counter()
            metrics = self._train(data)
            trained = time.perf_counter()
            self.round += 1
            metrics, stop_signal = self._sync(data.stats, metrics)
            self.env_steps += config.transitions_per_round(plan.topology.num_learners)
            synced = time.perf_counter()
            is_last = self.round == plan.num_rounds or stop_signal is not None
            evaluation = self._evaluate(is_last)
            self.elapsed_seconds = first_elapsed + time.perf_counter() - session_start  # the same in row and checkpoint
            if is_last or self.round % config.checkpoint_interval == 0:
                self._checkpoint()
            ended = time.perf_counter()
            annotate = max(actor["annotate_seconds"] for actor in data.stats)
            times = {
                "sample": max(0.0, sampled - started - annotate),  # with overlap most of it passes unseen
                "annotate": annotate,
                "transfer": metrics.pop("time/transfer_seconds"),
                "train": trained - sampled,
                "sync": synced - trained,
                "record": ended - synced,
                "idle": metrics.pop("time/idle_seconds"),
                "round": ended - started,
            }
            times["train"] -= times["transfer"]
            self._record(metrics | evaluation, times, self.round - first_round, ended - session_start, is_last)
        if self.round == first_round and self.is_first:
            self.console.say(f"nothing to do: all {plan.num_rounds} rounds are done")
        elif self.is_first and math.isnan(self.recent_return):
            self.console.say("note: no episode has ended so far; max_episode_steps would end them after so many steps")
        folder = self.folder.path if self.folder else None
        return TrainingResult(folder, self.round, self.env_steps, self.eval_return, self.best_return, stop_signal)

    def _collect(self) -> Sampled:
        """This round's rollout; where an actor fails for good, what was learned is saved before the run ends."""
        try:
            return self.sampler.collect(self.round, self._frozen())
        except ActorError as error:
            if self.is_first:
                self.events.write("actor_error", round_index=self.round, what=str(error))
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
            if self.is_first:
                self.events.write("non_finite", round_index=self.round, what=where)
            raise NonFiniteError(f"{where}; the last checkpoint is intact") from None
        return metrics

    def _frozen(self) -> Frozen:
        """The policy as it is now, to sample or evaluate with."""
        return Frozen(self.learner.policy.flat.data.cpu().numpy(), self.obs_rms_state, self.return_rms_state)

    def _sync(self, stats: list[dict[str, Any]], metrics: dict[str, float]) -> tuple[dict[str, float], int | None]:
        """Averages parameters where due, merges the round's moments and metrics, and agrees on stopping.

        Returns:
            metrics of all learners together, and the signal that ends the run after this round.
        """
        config = self.config
        if config.sync_mode == "parameters" and self.round % config.param_sync_interval == 0:
            self._average_optimized()
        seconds = [actor["sample_seconds"] + actor["annotate_seconds"] for actor in stats]
        metrics["time/idle_seconds"] = max(seconds) - sum(seconds) / len(seconds)
        obs_moments = _merged(stats, "obs_rms_moments", self.plan.network.obs_size)
        return_moments = _merged(stats, "return_rms_moments", 1)
        names = ("episodes", "episode_return_sum", "episode_len_sum", "episode_terminations")
        episodes = [sum(actor[name] for actor in stats) for name in names]
        parts = [
            [float(self.stop.signal or 0), *episodes, self._parameter_hash()],
            _packed(obs_moments),
            _packed(return_moments),
            list(metrics.values()),
        ]
        rows = self.learners.exchange(np.concatenate([np.asarray(part, np.float64) for part in parts]))
        stops, episodes_rows, hashes, moments_rows, return_rows, metric_rows = np.split(
            rows, np.cumsum([1, 4, 1, len(parts[1]), len(parts[2])]), axis=1
        )
        self.obs_rms_state = merge_rms_states([self.obs_rms_state, *(_unpacked(row) for row in moments_rows)])
        self.return_rms_state = merge_rms_states([self.return_rms_state, *(_unpacked(row) for row in return_rows)])
        per_learner = [dict(zip(metrics, row.tolist(), strict=True)) for row in metric_rows]
        averaged = average_metrics(per_learner, [learner["buffer_size"] for learner in per_learner])
        for name in _TOTALS:
            averaged[name] = sum(learner[name] for learner in per_learner)
        count, return_sum, length_sum, terminations = episodes_rows.sum(axis=0).tolist()
        averaged |= {
            "rollout/episodes": count,
            "rollout/episode_return_mean": return_sum / count if count else math.nan,
            "rollout/episode_length_mean": length_sum / count if count else math.nan,
            "rollout/terminated_fraction": terminations / count if count else math.nan,
            "rollout/policy_lag": float(self.config.overlap and self.round > 1),
            "sync/distinct_parameters": float(len(np.unique(hashes))),
        }
        return averaged, int(stops.max()) or None

    def _optimized(self) -> list[torch.Tensor]:
        """What ranks hold in common after a sync: the parameters, Adam's moments and its number of steps."""
        optimizer = self.learner.optimizer
        return [self.learner.policy.flat.data, optimizer.exp_avg, optimizer.exp_avg_sq, optimizer.step]

    def _average_optimized(self) -> None:
        """Averages parameters and optimizer state of all learners by one all_reduce over one flat vector.

        The moments are averaged too: kept local they would push each learner away from the average again, and ranks
        would not be equal after a sync.
        """
        tensors = self._optimized()
        vector = torch.cat([tensor.reshape(-1) for tensor in tensors])
        self.learners.average(vector)
        for tensor, part in zip(tensors, torch.split(vector, [tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(part.reshape(tensor.shape))
        self.learner.optimizer.step.round_()

    def _parameter_hash(self) -> float:
        """A number that differs where parameters or statistics differ in a single bit."""
        digest = hashlib.sha256(self.learner.policy.flat.data.cpu().numpy().tobytes())
        digest.update(self.obs_rms_state["mean"].tobytes() + self.obs_rms_state["var"].tobytes())
        return float(int.from_bytes(digest.digest()[:_HASH_BYTES], "big"))

    def _evaluate(self, is_last: bool) -> dict[str, float]:
        """Deterministic episodes with fixed seeds on rank 0 where due; the best model is the one with the best mean."""
        interval = self.config.eval_interval
        is_due = is_last or (interval > 0 and self.round % interval == 0)
        result = {"eval/return_mean": math.nan, "eval/return_std": math.nan, "eval/length_mean": math.nan}
        if not (is_due and self.is_first):
            return result
        assert self.folder is not None
        seeds = evaluation_seeds(self.config.seed, self.config.eval_episodes)
        episodes = self.sampler.evaluate(seeds, self._frozen())
        returns = np.array([episode.episode_return for episode in episodes])
        self.eval_return = float(returns.mean())
        self._save_model(self.folder.model, self.folder.latest_model)
        if math.isnan(self.best_return) or self.eval_return > self.best_return:
            self.best_return = self.eval_return
            self._save_model(self.folder.best_model, self.folder.latest_best_model)
        lengths = np.array([episode.length for episode in episodes])
        return dict(zip(result, (self.eval_return, float(returns.std()), float(lengths.mean())), strict=True))

    def _save_model(self, path: Path, latest: Path) -> None:
        state = self.obs_rms_state if self.config.normalize_obs else None
        about = {
            "config": self.config.name,
            "seed": self.config.seed,
            "round": self.round,
            "env_steps": self.env_steps,
            "eval_return": self.eval_return,
            "env_arguments": env_arguments(self.config),
        }
        parameters = self.learner.policy.flat.data.cpu().numpy()
        save_model(path, self.plan.network, self.plan.env, parameters, state, about)
        copy_atomically(path, latest)

    def _checkpoint(self) -> None:
        """Gathers every rank's state and writes it as one file on rank 0."""
        states = self.learners.gather({"learner": self.learner.state_dict(), "actors": self.sampler.states})
        if not self.is_first:
            return
        assert self.folder is not None
        content = {
            "network": {name: getattr(self.plan.network, name) for name in self.plan.network.__dataclass_fields__},
            "env_steps": self.env_steps,
            "elapsed_seconds": self.elapsed_seconds,
            "obs_rms_state": self.obs_rms_state,
            "return_rms_state": self.return_rms_state,
            "best_return": self.best_return,
            "eval_return": self.eval_return,
            "ranks": states,
        }
        save_checkpoint(self.folder.checkpoints, self.round, content, self.config.keep_checkpoints)

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
            self.console.say("note: log_std of the checkpoint was outside its range and has been brought back")
        actors = [state for rank in ranks for state in rank["actors"]]
        first = topology.rank * topology.num_actors
        if len(actors) == topology.num_learners * topology.num_actors and all(
            len(state["episode_return"]) == topology.envs_per_actor for state in actors
        ):
            self.pool.restore(actors[first : first + topology.num_actors])
        self.obs_rms_state, self.return_rms_state = content["obs_rms_state"], content["return_rms_state"]
        self.round, self.env_steps = content["round"], content["env_steps"]
        self.elapsed_seconds = content["elapsed_seconds"]
        self.best_return, self.eval_return = content["best_return"], content["eval_return"]

    def _record(
        self, metrics: dict[str, float], times: dict[str, float], rounds: int, seconds: float, is_last: bool
    ) -> None:
        """One row to the CSV and TensorBoard, one line to the console; rank 0 only."""
        if not self.is_first:
            return
        steps = self.config.transitions_per_round(self.plan.topology.num_learners)
        row = {
            "round": float(self.round),
            "env_steps": float(self.env_steps),
            **metrics,
            "time/steps_per_second": steps / times["round"],
            "time/elapsed_seconds": self.elapsed_seconds,
            **{f"time/{name}_seconds": value for name, value in times.items()},
        }
        self.csv.write(row)
        self.tensorboard.write(row, self.env_steps)
        for anomaly in self.watch.update(row):
            self.events.write("anomaly", round_index=self.round, **anomaly._asdict())
            self.tensorboard.write_text(f"anomaly/{anomaly.rule}", f"{anomaly.seen}: {anomaly.advice}", self.env_steps)
            self.console.say(f"look: round {self.round}: {anomaly.rule}: {anomaly.seen} (check {anomaly.advice})")
        if row["rollout/episodes"]:
            self.recent_return = row["rollout/episode_return_mean"]
        left = seconds / rounds * (self.plan.num_rounds - self.round)
        line = progress_line(row, num_rounds=self.plan.num_rounds, recent_return=self.recent_return, seconds_left=left)
        self.console.progress(line, keep=is_last or not math.isnan(row["eval/return_mean"]))

    def _open_folder(self) -> RunFolder:
        if self.plan.resumed is None:
            return RunFolder.create(self.config)
        path = self.plan.resumed[0].parent
        return RunFolder(path.parent if path.name == "checkpoints" else path, self.config)


def _merged(stats: list[dict[str, Any]], name: str, size: int) -> RmsState:
    """This learner's moments of the round: those of its actors together."""
    return merge_rms_states([empty_rms_state(size), *(s[name] for s in stats if s[name] is not None)])


def _packed(state: RmsState) -> list[float]:
    return [state["count"], *state["mean"].tolist(), *state["var"].tolist()]


def _unpacked(row: np.ndarray[Any, np.dtype[np.float64]]) -> RmsState:
    size = (len(row) - 1) // 2
    return {"mean": row[1 : 1 + size].copy(), "var": row[1 + size :].copy(), "count": float(row[0])}
