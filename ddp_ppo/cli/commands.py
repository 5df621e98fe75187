"""What each command of the command line does: reads, works, prints, writes, and names the next useful command.

Every function takes the parsed words and returns the exit status; the errors that it raises become one line in
`__main__`. The top level imports nothing but the standard library: actors import the command line again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

_BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
EXIT_USER_ERROR = 2
EXIT_FAILURE = 1


def run_evaluation(options: argparse.Namespace) -> int:
    """Runs episodes with fixed seeds, of several models side by side."""
    _use_one_thread()
    from ddp_ppo.evaluation.evaluate import Actions, evaluate, evaluation_text, own_seeds, write_csv
    from ddp_ppo.runs.model import load_model, run_folder_of, with_tasks
    from ddp_ppo.runs.model_env import in_environment

    _require_writable_json(options)
    places, words = _places_and_words(options.models)
    models = [one for path in places for one in with_tasks(in_environment(load_model(path), words))]
    table = options.csv or run_folder_of(models[0].path) / "evaluation.csv"
    _require_writable("--csv", table)
    seeds = own_seeds(models[0], options.seed, options.episodes)
    kinds: tuple[Actions, ...] = ("deterministic", "stochastic") if options.stochastic else ("deterministic",)
    evaluations = [evaluate(model, seeds, actions=kind) for model in models for kind in kinds]
    print(evaluation_text(evaluations))
    with _writing("--csv", table):
        write_csv(table, evaluations)
    _write_json(options, {"seeds": seeds, "evaluations": [one.summary for one in evaluations]})
    print(f"episodes       {table}\nlook at it     ddp-ppo play {shlex.join([places[0], *words])}")
    return 0


def is_setting(word: str) -> bool:
    """Whether a word of the command line is a key=value setting and not a path."""
    return re.match(r"[A-Za-z_][\w.]*=", word) is not None and not os.path.exists(word)


def _places_and_words(given: list[str]) -> tuple[list[str], list[str]]:
    """The places of models among what was given, and the settings."""
    from ddp_ppo.config.setting import ConfigError

    places, words = [one for one in given if not is_setting(one)], [one for one in given if is_setting(one)]
    if not places:
        raise ConfigError("evaluate: name a run folder, a checkpoint or a model file as well as the settings")
    return places, words


def run_episodes(options: argparse.Namespace) -> int:
    """Runs episodes and keeps them."""
    _use_one_thread()
    from ddp_ppo.evaluation.play import Wanted, default_folder, play, play_text, task_folder, tasks_of
    from ddp_ppo.evaluation.rendering import has_display
    from ddp_ppo.runs.model import load_model
    from ddp_ppo.runs.model_env import in_environment
    from ddp_ppo.sampling.episodes import ENDLESS_STEPS

    _require_writable_json(options)
    model = in_environment(load_model(options.model), options.overrides)
    wanted = Wanted(
        num_episodes=options.episodes,
        seed=options.seed,
        num_steps=options.steps or ENDLESS_STEPS,
        max_fps=options.fps,
        actions=options.actions,
        is_live=options.out is None and has_display(),
    )
    summaries = []
    folder = options.out or default_folder(model)
    say = partial(print, flush=True)
    for change in model.changed:
        say(f"changed        {change}: not comparable with what the run logged")
    for task in tasks_of(model, wanted):
        say(f"{task.name} in {task.env.env_id}")
        for played in play(task, folder if task is model else task_folder(folder, task), wanted, say=say):
            say(play_text(played))
            summaries.append(played.summary)
    about = {"model": model.name, "path": str(model.path), "changed": list(model.changed)}
    _write_json(options, {**about, "episodes": summaries})
    if (Path(options.model) / "metrics.csv").exists():
        print(f"in its report  ddp-ppo report {shlex.quote(options.model)}")
    print(f"export it      ddp-ppo export {shlex.quote(options.model)}")
    return 0


def run_export(options: argparse.Namespace) -> int:
    """Writes a policy for other programs."""
    _use_one_thread()
    from ddp_ppo.export.export import export, export_text

    _require_writable_json(options)
    with _writing("--out", options.out or options.model):
        exported = export(options.model, options.out)
    print(export_text(exported))
    _write_json(options, {"folder": str(exported.folder), **exported.document})
    return 0 if exported.has_passed else EXIT_FAILURE


def write_report_of(options: argparse.Namespace) -> int:
    """Writes a run as one page."""
    from ddp_ppo.report.report import REPORT_NAME, record, verdicts, write_report
    from ddp_ppo.runs.reading import read_run
    from ddp_ppo.text import entry

    _require_writable_json(options)
    run = read_run(options.folder)
    out = options.out or run.path / REPORT_NAME
    _require_writable("--out", out)
    lines = {**verdicts(run), **record(run), "report": str(out)}
    print("\n".join(entry(name, words, name_width=18) for name, words in lines.items()))
    with _writing("--out", out):
        write_report(run, out)
    _write_json(options, lines)
    print(f"{'compare it':18}ddp-ppo compare {shlex.quote(options.folder)} OTHER_RUN")
    return 0


def fetch_weights(options: argparse.Namespace) -> int:
    """Downloads DiscoRL's published weights."""
    from ddp_ppo.learners.disco.weights import ENVIRON_NAME, cache_path, download_weights

    target = options.out or cache_path(os.environ)
    download_weights(target)
    words = [shlex.quote(f"{name}={target}") for name in ("disco.weights", ENVIRON_NAME)]
    found = "found there" if not options.out else f"use them with {' or '.join(words)}"
    print(f"{target}: complete; {found}")
    return 0


def run_comparison(options: argparse.Namespace) -> int:
    """Sets runs side by side."""
    _use_one_thread()
    from ddp_ppo.report.compare import compare, comparison_text, document, require_matplotlib, write_page, write_png
    from ddp_ppo.runs.reading import read_run

    runs = [read_run(folder) for folder in options.folders]
    out = options.out or runs[0].path.absolute().parent / "compare.html"
    for option, file in (("--out", out), ("--png", options.png), ("--json", options.json)):
        if file:
            _require_writable(option, file)
    if options.png:
        require_matplotlib()
    if options.against:
        from ddp_ppo.report.against import add_peer

        runs = add_peer(runs, options.ignore, options.against)
    comparison = compare(runs, options.ignore)
    print(comparison_text(comparison))
    with _writing("--out", out):
        write_page(comparison, out)
    if options.png:
        with _writing("--png", options.png):
            write_png(comparison, options.png)
    _write_json(options, document(comparison))
    print(f"page           {out}\nlook at one    ddp-ppo report {shlex.quote(options.folders[0])}")
    return 0


def show_replay(options: argparse.Namespace) -> int:
    """Drives environments to a value that was not finite again."""
    from ddp_ppo.runs.evidence import replay_evidence

    print(replay_evidence(Path(options.evidence)))
    return 0


def show_settings(options: argparse.Namespace) -> int:
    """Lists every setting."""
    from ddp_ppo.config.writing import settings_reference

    print(settings_reference(), end="")
    return 0


def show_metrics(options: argparse.Namespace) -> int:
    """Lists every metric."""
    from ddp_ppo.learners.registry import LEARNERS
    from ddp_ppo.runs.metric_page import metrics_reference

    print(metrics_reference({name: kind.metrics for name, kind in LEARNERS.items()}), end="")
    return 0


def run_training(options: argparse.Namespace) -> int:
    """Trains a configuration, with --nproc as torchrun."""
    if options.nproc is not None:
        _torchrun(options)
    _use_one_thread()
    from ddp_ppo.config.load import load_config
    from ddp_ppo.processes.lifetime import die_with_agent

    if "TORCHELASTIC_RUN_ID" in os.environ:
        # torchrun's workers outlive an agent that is killed; before torch, which takes 2 s to load
        die_with_agent(os.environ)
    _require_writable_json(options)
    config = load_config(options.config, options.overrides)
    from ddp_ppo.runs.console import Console
    from ddp_ppo.training.trainer import train

    with _pointing_to_step(options):
        result = train(config, environ=dict(os.environ), may_exit=True)
    if result.home is None:
        return 128 + result.stop_signal if result.stop_signal else 0
    Console().say(_closing_words(result, config))
    figures = {name: value for name, value in vars(result).items() if name not in ("metrics", "home")}
    _write_json(options, {**figures, "folder": str(result.folder)})
    return 128 + result.stop_signal if result.stop_signal else 0


def _closing_words(result: Any, config: Any) -> str:
    from ddp_ppo.config.packaged import name_of_run

    folder = _near(result.folder)
    output = folder.parent
    ending = "stopped by a signal" if result.stop_signal else "done"
    lines = [f"{ending}: {result.rounds} rounds, {result.env_steps:,} environment steps"]
    lines += [
        f"  incomplete   {path}: the last rounds are missing, as it could not be written" for path in result.unwritten
    ]
    name = name_of_run(result.folder) or config.name
    models = [output / f"model_{name}{which}.pt" for which in ("", "_best")]
    if result.eval_return == result.eval_return:
        best = f"{result.best_return:.1f}" if result.best_return == result.best_return else "not written"
        lines[0] += f", evaluation return {result.eval_return:.1f} (best {best})"
        lines.append(f"  models       {', '.join(str(path) for path in models if path.exists()) or 'none'}")
        if config.solved_return is not None:
            verdict = "reached" if result.best_return >= config.solved_return else "not reached"
            lines.append(f"  standard     solved_return {config.solved_return:g}: {verdict}")
    lines.append(f"  run folder   {folder}")
    if (report := folder / "report.html").exists():
        lines.append(f"  report       {report}")
    if result.stop_signal:
        lines.append(f"go on with     {shlex.quote(f'resume={folder}')}")
    else:
        lines.append(
            f"look at it     tensorboard --logdir {shlex.quote(str(output))}  # start with its tab Custom Scalars"
        )
    return "\n".join(lines)


def _near(path: Path) -> Path:
    """A path as a person at this folder writes it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _torchrun(options: argparse.Namespace) -> NoReturn:
    from ddp_ppo.distributed.launch import launch_command

    os.execv(sys.executable, launch_command(options.nproc, [options.config, *options.overrides]))


def show_plan(options: argparse.Namespace) -> int:
    """Shows what a run would do: what run.sh starts, which is one learner for each visible GPU, or --nproc."""
    from ddp_ppo.config.load import load_config
    from ddp_ppo.distributed.launch import launch_line, launched_environ
    from ddp_ppo.machine import num_cuda_devices
    from ddp_ppo.training.plan import prepare
    from ddp_ppo.training.plan_text import plan_lines, plan_text

    _require_writable_json(options)
    config, num_processes = load_config(options.config, options.overrides), options.nproc or num_cuda_devices()
    plan = prepare(config, environ=launched_environ(os.environ, num_processes))
    if options.environments or options.keep:
        return _show_scale_up(options, plan)
    print(plan_text(plan))
    _write_json(options, {**plan_lines(plan), "notes": list(plan.notes)})
    words = shlex.join(config.words)
    line = launch_line(num_processes, config.words) if num_processes > 1 else f"ddp-ppo train {words}"
    print(f"check it       ddp-ppo check {words}\nstart it       {line}")
    return 0


def _show_scale_up(options: argparse.Namespace, plan: Any) -> int:
    from ddp_ppo.config.settings import ConfigError
    from ddp_ppo.training.plan import prepare
    from ddp_ppo.training.scale_up import KEEP, scale_up, scale_up_text

    if not (options.environments and options.keep):
        raise ConfigError(f"--environments and --keep belong together: --environments 4x --keep {'|'.join(KEEP)}")
    learners = plan.topology.num_learners
    scaled, result = scale_up(plan.config, options.environments, options.keep, num_learners=learners)
    prepare(scaled, environ=dict(os.environ))  # whether its rollouts fit the memory, for one
    print(scale_up_text(result))
    _write_json(options, vars(result))
    words = [options.config, *options.overrides, *(f"{name}={value}" for name, value in result.settings.items())]
    print(f"try it         ddp-ppo check {shlex.join(words)}")
    return 0


def run_check(options: argparse.Namespace) -> int:
    """Looks whether a task is fit to be trained."""
    _use_one_thread()
    from ddp_ppo.check.run import check, check_document, closing_text
    from ddp_ppo.config.load import load_config

    _require_writable_json(options)
    config = load_config(options.config, options.overrides)
    with _pointing_to_step(options):
        result = check(config, environ=dict(os.environ), say=lambda text: print(text, flush=True))
    print(closing_text(result, shlex.join([options.config, *options.overrides])))
    _write_json(options, check_document(result))
    return 0 if result.has_passed else EXIT_FAILURE


def step_environment(options: argparse.Namespace) -> int:
    """Steps one environment in this process."""
    _use_one_thread()
    from ddp_ppo.check.step import Steps, step_through
    from ddp_ppo.config.load import load_config

    config = load_config(options.config, options.overrides)
    seed = config.seed if options.seed is None else options.seed
    steps = Steps(actions=options.actions, policy=options.policy, num_steps=options.steps, seed=seed)
    step_through(config, steps, partial(print, flush=True))
    return 0


@contextlib.contextmanager
def _pointing_to_step(options: argparse.Namespace) -> Iterator[None]:
    """Has an error of an environment end with the command that steps through it in the foreground."""
    from ddp_ppo.errors import EnvError, first_cause
    from ddp_ppo.sampling.actor_pool import ActorError

    try:
        yield
    except (ActorError, EnvError) as error:
        if isinstance(error, ActorError) or not isinstance(first_cause(error), EnvError | ImportError):
            error.add_note(f"step through it: ddp-ppo step {shlex.join([options.config, *options.overrides])}")
        raise


def run_bench(options: argparse.Namespace) -> int:
    """Tries layouts of actors and environments."""
    _use_one_thread()
    from ddp_ppo.check.bench import run
    from ddp_ppo.config.load import load_config
    from ddp_ppo.runs.console import Console

    _require_writable_json(options)
    config = load_config(options.config, options.overrides)
    results = run(config, environ=dict(os.environ), seconds=options.seconds, console=Console())
    _write_json(options, {"candidates": [vars(result) for result in results]})
    words = _with_words(options.overrides, results[0].words.split())
    print(f"train it       ddp-ppo train {shlex.join([options.config, *words])}")
    return 0


def _with_words(words: Sequence[str], others: Sequence[str]) -> list[str]:
    """KEY=VALUE words, others in place of those with the same key."""
    keys = {word.partition("=")[0] for word in others}
    return [*(word for word in words if word.partition("=")[0] not in keys), *others]


def _use_one_thread() -> None:
    """Each process computes on one core: an unset BLAS takes all of them and is 16 times slower on small products."""
    os.environ.update({name: "1" for name in _BLAS_THREADS if name not in os.environ})


def _require_writable_json(options: argparse.Namespace) -> None:
    if options.json:
        _require_writable("--json", options.json)


def _require_writable(option: str, file: Path) -> None:
    """Refuses a result's file before the work, as far as can be known then."""
    from ddp_ppo.config.settings import ConfigError

    place = file if file.exists() else file.absolute().parent
    if file.is_dir() or not (place.is_dir() or file.exists()) or not os.access(place, os.W_OK):
        raise ConfigError(f"{option}: {file} cannot be written; name a file in a folder that exists")


@contextlib.contextmanager
def _writing(option: str, file: Path) -> Iterator[None]:
    """Turns the error of a file that does not take a result into one line."""
    from ddp_ppo.config.settings import ConfigError

    try:
        yield
    except OSError as error:
        raise ConfigError(f"{option}: {file} cannot be written: {error.strerror or error}") from error


def _write_json(options: argparse.Namespace, result: dict[str, Any]) -> None:
    """The last that a command does: its work and what it has printed are not lost with a full disk."""
    if options.json:
        with _writing("--json", options.json):
            options.json.write_text(json.dumps(result, indent=2, default=str) + "\n")
