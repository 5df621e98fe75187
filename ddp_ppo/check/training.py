"""Whether the loop runs: two rounds of training, what they wrote, the policy played again, evaluated and exported.

Then the arithmetic of a larger run, and the speed. How well the policy does is a second verdict, kept apart.
Everything is written to the trial's temporary folder.

Shapes: T steps, K environments, P parameters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ddp_ppo.check import bench
from ddp_ppo.check.trial import (
    ROUNDING,
    Recording,
    Report,
    SkipStage,
    StageError,
    Trial,
    call,
    record,
    record_choices,
    require_equal,
    reset,
    spread,
)
from ddp_ppo.config.settings import Config, ConfigError
from ddp_ppo.distributed.group import CollectiveError
from ddp_ppo.envs.standard import own_standard
from ddp_ppo.evaluation.evaluate import ends, evaluate, own_seeds
from ddp_ppo.export import export
from ddp_ppo.learners.registry import learner_kind
from ddp_ppo.machine import this_machine
from ddp_ppo.maths.seeding import seed_global_generators
from ddp_ppo.protocols import FloatArray
from ddp_ppo.runs.agreement import agreed_learner
from ddp_ppo.runs.checkpoint import find_checkpoint, save_checkpoint
from ddp_ppo.runs.console import Console
from ddp_ppo.runs.metric_table import BUFFER_SIZE, GRADIENT_STEPS, METRICS, MetricTable, seconds_of
from ddp_ppo.runs.model import Model, acting_policy, load_model
from ddp_ppo.sampling.actor_pool import ActorError
from ddp_ppo.sampling.drive import Player
from ddp_ppo.sampling.finite import NonFiniteError
from ddp_ppo.text import duration
from ddp_ppo.training.history import TrainingResult
from ddp_ppo.training.plan import prepare
from ddp_ppo.training.scale_up import arithmetic, scale_up
from ddp_ppo.training.sync import ConsistencyError
from ddp_ppo.training.trainer import train

_RUN_NAME = "check"
_SMALLEST_CHANGE = 1e-8  # of a parameter in two rounds; Adam moves each by about learning_rate a step
_REPLAY_STEPS = 200
_REPLAY_SEED = 5
_LONGEST_BENCH_SECONDS = 30.0
_NUM_EPISODES = 3
_OF_THE_RUN = ("rounds", "transitions of the run", "gradient steps of the run")  # which is cut to two rounds
_LONGEST_EPISODE_SECONDS = 5.0  # of an evaluation that is tried with several episodes


def _num_rounds(config: Config) -> int:
    """So many that two of them train."""
    return 1 + learner_kind(config.learner).first_round(config, config.envs_per_learner)


def _trained(trial: Trial) -> Config:
    """The configuration of these rounds."""
    config = bench.one_learner(trial.plan.config)
    return replace(
        config,
        total_env_steps=_num_rounds(config) * config.transitions_per_round(1),
        eval_interval=0,
        eval_episodes=1,
        output_dir=str(trial.folder),
        metrics_path=None,
        resume=None,
        run_name=_RUN_NAME,
    )


def _run_folder(trial: Trial) -> Path:
    return trial.folder / f"{trial.plan.config.name}-{_RUN_NAME}"


def check_training(trial: Trial, report: Report) -> None:
    """Two rounds that train and an evaluation, with one learner and its actors, as a run would take them."""
    config, rows = _trained(trial), trial.rows
    result = _train(config, trial, rows)
    report.figures["rounds"] = f"{len(rows)} of {config.transitions_per_round(1):,} transitions"
    learner_rows = trial.plan.kind.metrics
    report.faults += [fault for row in rows for fault in row_faults(row, learner_rows)]
    for one in learner_rows:
        values = [row.get(one.name, math.nan) for row in rows[-2:]]
        if one.question == "health" and any(map(math.isfinite, values)):
            report.figures[one.name] = " -> ".join(f"{value:.4g}" for value in values)
    _, content, _ = find_checkpoint(_run_folder(trial))
    trained = agreed_learner(content)[trial.plan.kind.trained]
    start = prepare(config, environ=trial.environ).starting_point().parameters
    change = float(np.abs(trained - start).max())
    report.figures["largest change of a parameter"] = f"{change:.3g}"
    if not (np.isfinite(trained).all() and np.isfinite(content["obs_rms_state"]["var"]).all()):
        report.faults.append("a parameter or a statistic of the observations is not finite")
    if change < _SMALLEST_CHANGE:
        report.faults.append("no parameter has changed to speak of: look at learning_rate and at the reward")
    report.figures["evaluation"] = f"one episode: return {result.eval_return:.4g}"


def _train(config: Config, trial: Trial, rows: list[Mapping[str, float]]) -> TrainingResult:
    """Trains, and adds the metrics of each round to `rows`."""
    try:
        result = train(config, environ=trial.environ, console=Console.silent(), on_round=rows.append)
    except (ActorError, CollectiveError, ConsistencyError, NonFiniteError) as error:
        raise StageError(str(error).splitlines()[0]) from error
    if result.stop_signal is not None:
        raise KeyboardInterrupt
    return result


def row_faults(row: Mapping[str, float], learner_rows: MetricTable) -> list[str]:
    """Metrics of a round that are missing, empty or not finite; the learner's only where it has trained."""
    has_trained = row.get(GRADIENT_STEPS, 0) > 0
    listed = [*METRICS, *(learner_rows if has_trained else ())]
    may_be_empty = {one.name for one in listed if one.can_be_empty}
    measured = {name for name in row if has_trained and name.startswith("train/")}
    wanted = {one.name for one in listed if not one.is_prefix} | measured
    bad = [name for name in wanted - may_be_empty if not math.isfinite(row.get(name, math.nan))]
    bad += [name for name, value in row.items() if math.isinf(value) and name not in bad]
    return [f"round {row.get('round', 0):.0f}: no finite value of {name}" for name in sorted(bad)]


def check_checkpoint(trial: Trial, report: Report) -> None:
    """Reads what was written, compares it with the model, writes it again, and has a run find it to go on from."""
    folder = _run_folder(trial)
    path, content, _ = find_checkpoint(folder)
    parameters = load_model(folder, "current").parameters
    saved = agreed_learner(content)["parameters"]
    report.figures["file"] = f"{path.name}, {path.stat().st_size / 1024:.0f} KiB"
    report.figures["after"] = f"{content['round']} rounds, {content['env_steps']:,} environment steps"
    num_rounds = len(trial.rows)
    if content["round"] != num_rounds:
        report.faults.append(f"the checkpoint is of round {content['round']}, the run had {num_rounds}")
    if not np.array_equal(saved, parameters):
        report.faults.append("the parameters of the checkpoint and of the model file of the same round differ")
    state = {name: value for name, value in content.items() if name not in ("format", "round")}
    again = find_checkpoint(save_checkpoint(trial.folder / "again", content["round"], state, 1))[1]
    different = [name for name in content if not _is_equal(content[name], again.get(name))]
    report.figures["written and read again"] = "equal to the last bit" if not different else "different"
    report.faults += [f"{name} is not equal after it was written and read again" for name in different]
    prepare(replace(_trained(trial), init_from=None, resume=str(folder)), environ=trial.environ)


def _is_equal(a: Any, b: Any) -> bool:
    """Whether two trees of arrays and plain values are equal to the last bit; NaN equals NaN."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(_is_equal(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(_is_equal, a, b))
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    return bool(a == b) or (a != a and b != b)


def check_replay(trial: Trial, report: Report) -> None:
    """The policy of the model file acts without noise; its actions, given to a new environment, lead the same way."""
    model = load_model(_run_folder(trial), "current")
    acted, actions = _act(trial, model)
    report.figures |= trial.env.action.figures(actions)
    report.figures["steps"] = len(actions)
    report.figures["return"] = f"{float(acted.reward.sum()):.4g}"
    seed_global_generators(_REPLAY_SEED)
    with trial.envs(1) as env:
        replayed = record(env, reset(env, [_REPLAY_SEED]), actions)
    require_equal(report, "replayed", (acted, replayed), "the same actions lead elsewhere")


def _act(trial: Trial, model: Model) -> tuple[Recording, Any]:
    """What the policy does in one environment, and its actions [T, 1, A] or [T, 1]."""
    seed_global_generators(_REPLAY_SEED)
    acting = _Remembered(Player(acting_policy(model, 1), 1))
    with trial.envs(1) as env:
        path = record_choices(env, reset(env, [_REPLAY_SEED]), acting, _REPLAY_STEPS)
    return path, np.array(acting.actions)


class _Remembered:
    """A player whose actions are kept."""

    def __init__(self, player: Player) -> None:
        self._player, self.after = player, player.after
        self.actions: list[Any] = []

    def choose(self, obs: FloatArray) -> Any:
        """See `Chooser`."""
        self.actions.append(self._player.choose(obs).copy())
        return self.actions[-1]


def check_evaluation(trial: Trial, report: Report) -> None:
    """Evaluates the policy twice under the run's fixed conditions; the second verdict: is it up to the standard."""
    config, model = trial.plan.config, load_model(_run_folder(trial), "current")
    is_quick = trial.rows[-1][seconds_of("record")] < _LONGEST_EPISODE_SECONDS
    seeds = own_seeds(model, num_episodes=min(config.eval_episodes, _NUM_EPISODES if is_quick else 1))
    first, second = (call("evaluation", evaluate, model, seeds) for _ in range(2))
    report.figures["episodes"] = f"{len(seeds)} with a return of {spread(first.returns)}, {ends(first)}"
    if first.episodes != second.episodes:
        report.faults.append("the same policy and seeds give other episodes: a reset leaves something behind")
    logged = model.info["eval_return"]
    is_same = math.isnan(logged) or math.isclose(first.returns[0], logged, rel_tol=ROUNDING)
    report.figures["repeated"] = "equal" if first.episodes == second.episodes else "different"
    if not is_same:
        report.faults.append(f"seed {seeds[0]}: return {first.returns[0]:g}, the run's own evaluation: {logged:g}")
    _judge(trial, report, first.return_mean)


def _judge(trial: Trial, report: Report, score: float) -> None:
    """Says how far a policy of two rounds is from the standard; it fails nothing."""
    solved, own = trial.plan.config.solved_return, own_standard(trial.plan.config.tasks)
    report.figures["solved_return"] = "not set" if solved is None else f"{solved:g}"
    report.figures["the task's own reward_threshold"] = "none" if own is None else f"{own:g}"
    if solved is not None and own is not None and solved != own:
        report.notes.append(f"solved_return {solved:g} is another standard than the task's own, {own:g}")
    standard = own if solved is None else solved
    if standard is None:
        report.figures["standard"] = "none: set solved_return to have one"
    else:
        verdict = "reached" if score >= standard else "not reached"
        report.figures["standard"] = f"{standard:g} {verdict} after {len(trial.rows)} rounds: {score:.4g}"


def check_scale_up(trial: Trial, report: Report) -> None:
    """Trains two rounds with twice the environments and compares what was counted with the arithmetic of `plan`."""
    short = _trained(trial)
    wanted = 2 * trial.plan.topology.num_envs
    if trial.at_most(wanted) < wanted:
        raise SkipStage("no more instances can be open at once")
    try:
        scaled, result = scale_up(short, "2x", "updates", num_learners=1)
        scaled = replace(scaled, run_name="scale_up", total_env_steps=2 * scaled.transitions_per_round(1))
        prepare(scaled, environ=trial.environ)
    except ConfigError as error:
        raise SkipStage(str(error)) from None
    rows: list[Mapping[str, float]] = []
    _train(scaled, trial, rows)
    report.tables["arithmetic"] = [
        {"": name, "now": f"{before:,}", "twice the environments": f"{after:,}"}
        for name, (before, after) in result.rows.items()
        if name not in _OF_THE_RUN
    ]
    expected, counted = arithmetic(scaled, 1), rows[-1]
    steps = {BUFFER_SIZE: "transitions a round", GRADIENT_STEPS: "gradient steps per round"}
    for metric, name in steps.items():
        is_less = metric == GRADIENT_STEPS and scaled.ppo.target_kl is not None and counted[metric] < expected[name]
        if counted[metric] != expected[name] and not is_less:
            report.faults.append(f"{name}: {expected[name]:,} expected, {counted[metric]:,.0f} counted")
    report.figures["counted"] = ", ".join(f"{counted[metric]:,.0f} {name}" for metric, name in steps.items())
    report.faults += [fault for row in rows for fault in row_faults(row, trial.plan.kind.metrics)]


def check_export(trial: Trial, report: Report) -> None:
    """Exports the model and compares every file with the policy."""
    if not export.has_extra():
        raise SkipStage("onnx and onnxruntime are missing: pip install 'ddp-ppo[export]'")
    exported = export.export(_run_folder(trial), trial.folder / "export")
    for parity in exported.parities:
        text = f"largest error {parity.obs_error:.1e}, along an episode {parity.episode_error:.1e}"
        report.figures[parity.name] = text
        if not parity.has_passed:
            report.faults.append(f"{parity.name} does not act as the policy does: {text}")


def check_throughput(trial: Trial, report: Report) -> None:
    """Steps per second of a few more rounds, or the second round's where they are slow; what the run takes here."""
    config, last = trial.plan.config, trial.rows[-1]
    sample, update = last[seconds_of("sample")], last[seconds_of("train")]
    own_seconds = last[seconds_of("round")] - last[seconds_of("record")]  # without the evaluation
    speed = config.transitions_per_round(1) / own_seconds
    if _num_rounds(config) == 2 and bench.NUM_ROUNDS * last[seconds_of("round")] < _LONGEST_BENCH_SECONDS:
        one = bench.one_learner(config)
        own = bench.own_candidate(one, this_machine().num_cores)
        measured = bench.measure(one, own, trial.environ, str(trial.folder))
        speed, sample, update = measured.steps_per_second, measured.sample_seconds, measured.train_seconds
    report.figures["steps per second"] = f"{speed:,.0f}" + (" (one learner)" if config.num_gpus > 1 else "")
    report.figures["round"] = f"{1000 * sample:.0f} ms sampling, {1000 * update:.0f} ms training"
    learners = trial.plan.topology.num_learners
    seconds = trial.plan.num_rounds * config.transitions_per_round(learners) / (speed * learners)
    report.figures["whole run"] = f"{config.total_env_steps:,} steps in about {duration(seconds)}, evaluation aside"
