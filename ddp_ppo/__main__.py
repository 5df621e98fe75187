"""Command line: `ddp-ppo COMMAND ...`, `python -m ddp_ppo COMMAND ...`.

Spawned actors import this file again, so its top level imports nothing but the standard library.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import shlex
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

_BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
EXIT_USER_ERROR = 2
EXIT_FAILURE = 1


def main(arguments: list[str] | None = None) -> int:
    """Runs one command.

    Returns:
        the exit status: 0 done, 1 a process of the run failed, 2 a mistake of the user; 129, 130, 143 after HUP, INT,
        TERM.
    """
    parser = _parser()
    options = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    command: Callable[[argparse.Namespace], int] = options.run
    return command(options)


def command_line(arguments: list[str] | None = None) -> NoReturn:
    """`main` as the whole program: it ends with its command, whatever an environment has left running in it.

    A reader of its output that goes, such as `head`, does not end it: files are written all the same.
    """
    from ddp_ppo.processes import outlast_readers

    outlast_readers(BrokenPipeError)
    try:
        status = main(arguments)
    except Exception:
        traceback.print_exc()
        status = EXIT_FAILURE
    children = multiprocessing.active_children()
    own = (threading.main_thread(), threading.current_thread())
    if children or not all(thread.daemon or thread in own for thread in threading.enumerate()):
        for child in children:
            child.kill()
        for stream in filter(None, (sys.stdout, sys.stderr)):
            with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
                stream.flush()
        os._exit(status)  # Python would wait for them
    sys.exit(status)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ddp-ppo", description="PPO on every core and GPU of one machine.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, run, text in (
        ("train", _train, "train a configuration"),
        ("plan", _plan, "show what a run would do: ranks, actors, mini-batches, memory; starts nothing"),
        ("check", _check, "see whether an environment and a configuration are fit to be trained, stage by stage"),
        ("bench", _bench, "try actors x environments on this machine and name the quickest setting"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("config", help="YAML file")
        command.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="settings that replace the file's")
        command.add_argument("--json", type=_path, metavar="FILE", help="write the result to this file")
        if name == "train":
            command.add_argument("--nproc", type=int, metavar="N", help="start N learners with torchrun")
        if name == "plan":
            command.add_argument("--environments", metavar="4x|N", help="compare with other environments in all")
            command.add_argument("--keep", choices=("transitions", "minibatch_size", "updates"), help="what then stays")
        if name == "bench":
            command.add_argument("--seconds", type=float, default=60.0, help="how long to try (default 60)")
        command.set_defaults(run=run)
    evaluate = commands.add_parser("evaluate", help="run episodes with fixed seeds: returns, intervals, verdicts")
    evaluate.add_argument("models", nargs="+", metavar="MODEL", help="run folder, checkpoint or model file")
    evaluate.add_argument("--episodes", type=_whole(1), metavar="N", help="default: as many as in the run's own")
    evaluate.add_argument("--seed", type=_whole(0), help="root of the episodes' seeds (default: the run's)")
    evaluate.add_argument("--stochastic", action="store_true", help="run them with sampled actions too")
    words = "default: evaluation.csv in the (first) model's folder"
    evaluate.add_argument("--csv", type=_path, metavar="FILE", help=words)
    evaluate.add_argument("--json", type=_path, metavar="FILE", help="write the result to this file")
    evaluate.set_defaults(run=_evaluate)
    play = commands.add_parser("play", help="run episodes and keep them: a window or a video, curves, the trajectory")
    play.add_argument("model", metavar="MODEL", help="run folder, checkpoint or model file")
    play.add_argument("--episodes", type=_whole(1), default=1, metavar="N", help="default: 1")
    play.add_argument("--seed", type=_whole(0), help="root of the episodes' seeds (default: the run's)")
    play.add_argument("--steps", type=_whole(1), metavar="N", help="cut longer episodes")
    words = "replay the environment's actions in a .npz (of an earlier play) or .csv file"
    play.add_argument("--actions", type=_path, metavar="FILE", help=words)
    play.add_argument(
        "--out", type=_path, metavar="DIR", help="write a video there, display or not (default: play in the run folder)"
    )
    play.add_argument("--fps", type=_whole(1), metavar="N", help="at most so many pictures a second of the video")
    play.add_argument("--json", type=_path, metavar="FILE", help="write the result to this file")
    play.set_defaults(run=_play)
    export = commands.add_parser("export", help="write a policy as ONNX and for NumPy alone, and compare it")
    export.add_argument("model", metavar="MODEL", help="run folder, checkpoint or model file")
    words = "where to (default: MODEL_export beside the model file)"
    export.add_argument("--out", type=_path, metavar="DIR", help=words)
    export.add_argument("--json", type=_path, metavar="FILE", help="write the result to this file")
    export.set_defaults(run=_export)
    report = commands.add_parser("report", help="write a run's curves, times and settings as one HTML file")
    report.add_argument("folder", metavar="RUN", help="run folder")
    report.add_argument("--out", type=_path, metavar="FILE", help="default: report.html in the run folder")
    report.add_argument("--json", type=_path, metavar="FILE", help="write the record to this file")
    report.set_defaults(run=_report)
    weights = commands.add_parser("disco-weights", help="download the published weights that learner: disco needs")
    words = "file (default: in the user's cache, where training finds it)"
    weights.add_argument("--out", type=_path, metavar="PATH", help=words)
    weights.set_defaults(run=_disco_weights)
    compare = commands.add_parser("compare", help="set runs side by side: differences, curves over seeds, a verdict")
    compare.add_argument("folders", nargs="+", metavar="RUN", help="run folder")
    compare.add_argument("--against", choices=("sb3",), help="train stable-baselines3's PPO on the same and add it")
    words = "a setting or version in which runs of one group may differ; may be given again"
    compare.add_argument("--ignore", action="append", default=[], metavar="NAME", help=words)
    words = "default: compare.html beside the first run folder"
    compare.add_argument("--out", type=_path, metavar="FILE", help=words)
    compare.add_argument("--png", type=_path, metavar="FILE", help="draw the learning curves with matplotlib")
    compare.add_argument("--json", type=_path, metavar="FILE", help="write the result to this file")
    compare.set_defaults(run=_compare)
    replay = commands.add_parser("replay", help="drive environments to a value that was not finite again")
    replay.add_argument("evidence", help="evidence_*.pt of a run folder")
    replay.set_defaults(run=_replay)
    settings = commands.add_parser("settings", help="list every setting as a Markdown table")
    settings.set_defaults(run=_settings)
    return parser


def _whole(low: int) -> Callable[[str], int]:
    """A type of argument: a whole number from `low` on."""

    def whole_number(text: str) -> int:
        if not text.isdecimal() or int(text) < low:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number >= {low}")
        return int(text)

    return whole_number


def _path(text: str) -> Path:
    """A type of argument: what a command writes, which an environment that goes to another folder does not move."""
    return Path(text).absolute()


def _evaluate(options: argparse.Namespace) -> int:
    return _guarded(lambda: _run_evaluation(options))


def _run_evaluation(options: argparse.Namespace) -> int:
    _use_one_thread()
    from ddp_ppo.evaluate import Actions, evaluate, evaluation_text, own_seeds, write_csv
    from ddp_ppo.models import load_model, run_folder_of, with_tasks

    _require_writable_json(options)
    models = [one for path in options.models for one in with_tasks(load_model(path))]
    table = options.csv or run_folder_of(models[0].path) / "evaluation.csv"
    _require_writable("--csv", table)
    seeds = own_seeds(models[0], options.seed, options.episodes)
    kinds: tuple[Actions, ...] = ("deterministic", "stochastic") if options.stochastic else ("deterministic",)
    evaluations = [evaluate(model, seeds, actions=kind) for model in models for kind in kinds]
    print(evaluation_text(evaluations))
    with _writing("--csv", table):
        write_csv(table, evaluations)
    _write_json(options, {"seeds": seeds, "evaluations": [one.summary for one in evaluations]})
    print(f"episodes       {table}\nlook at it     ddp-ppo play {shlex.quote(options.models[0])}")
    return 0


def _play(options: argparse.Namespace) -> int:
    return _guarded(lambda: _run_episodes(options))


def _run_episodes(options: argparse.Namespace) -> int:
    _use_one_thread()
    from ddp_ppo.episodes import ENDLESS_STEPS
    from ddp_ppo.models import load_model
    from ddp_ppo.play import Wanted, default_folder, play, play_text, task_folder, tasks_of
    from ddp_ppo.rendering import has_display

    _require_writable_json(options)
    model = load_model(options.model)
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
    for task in tasks_of(model, wanted):
        say(f"{task.name} in {task.env.env_id}")
        for played in play(task, folder if task is model else task_folder(folder, task), wanted, say=say):
            say(play_text(played))
            summaries.append(played.summary)
    _write_json(options, {"model": model.name, "path": str(model.path), "episodes": summaries})
    if (Path(options.model) / "metrics.csv").exists():
        print(f"in its report  ddp-ppo report {shlex.quote(options.model)}")
    print(f"export it      ddp-ppo export {shlex.quote(options.model)}")
    return 0


def _export(options: argparse.Namespace) -> int:
    return _guarded(lambda: _run_export(options))


def _run_export(options: argparse.Namespace) -> int:
    _use_one_thread()
    from ddp_ppo.export import export, export_text

    _require_writable_json(options)
    with _writing("--out", options.out or options.model):
        exported = export(options.model, options.out)
    print(export_text(exported))
    _write_json(options, {"folder": str(exported.folder), **exported.document})
    return 0 if exported.has_passed else EXIT_FAILURE


def _report(options: argparse.Namespace) -> int:
    return _guarded(lambda: _write_report(options))


def _write_report(options: argparse.Namespace) -> int:
    from ddp_ppo.report import REPORT_NAME, record, verdicts, write_report
    from ddp_ppo.run_files import read_run
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


def _disco_weights(options: argparse.Namespace) -> int:
    return _guarded(lambda: _download_weights(options))


def _download_weights(options: argparse.Namespace) -> int:
    from ddp_ppo.disco.weights import ENVIRON_NAME, cache_path, download_weights

    target = options.out or cache_path(os.environ)
    download_weights(target)
    words = [shlex.quote(f"{name}={target}") for name in ("disco_weights", ENVIRON_NAME)]
    found = "found there" if not options.out else f"use them with {' or '.join(words)}"
    print(f"{target}: complete; {found}")
    return 0


def _compare(options: argparse.Namespace) -> int:
    return _guarded(lambda: _run_comparison(options))


def _run_comparison(options: argparse.Namespace) -> int:
    _use_one_thread()
    from ddp_ppo.compare import compare, comparison_text, document, require_matplotlib, write_page, write_png
    from ddp_ppo.run_files import read_run

    runs = [read_run(folder) for folder in options.folders]
    out = options.out or runs[0].path.absolute().parent / "compare.html"
    for option, file in (("--out", out), ("--png", options.png), ("--json", options.json)):
        if file:
            _require_writable(option, file)
    if options.png:
        require_matplotlib()
    if options.against:
        from ddp_ppo.sb3_run import add_sb3

        runs = add_sb3(runs, options.ignore, print)
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


def _replay(options: argparse.Namespace) -> int:
    return _guarded(lambda: _show_replay(options))


def _show_replay(options: argparse.Namespace) -> int:
    from ddp_ppo.evidence import replay_evidence

    print(replay_evidence(Path(options.evidence)))
    return 0


def _settings(options: argparse.Namespace) -> int:
    from ddp_ppo.config import settings_reference

    print(settings_reference(), end="")
    return 0


def _train(options: argparse.Namespace) -> int:
    if options.nproc is not None:
        return _torchrun(options)
    return _guarded(lambda: _run_training(options))


def _run_training(options: argparse.Namespace) -> int:
    _use_one_thread()
    from ddp_ppo.config import load_config
    from ddp_ppo.processes import die_with_agent

    if "TORCHELASTIC_RUN_ID" in os.environ:
        # torchrun's workers outlive an agent that is killed; before torch, which takes 2 s to load
        die_with_agent(os.environ)
    _require_writable_json(options)
    config = load_config(options.config, options.overrides)
    from ddp_ppo.metrics import Console
    from ddp_ppo.trainer import train

    result = train(config, environ=dict(os.environ))
    if result.folder is None:
        return 128 + result.stop_signal if result.stop_signal else 0
    Console().say(_closing_words(result, config))
    _write_json(options, {**vars(result), "folder": str(result.folder)})
    return 128 + result.stop_signal if result.stop_signal else 0


def _closing_words(result: Any, config: Any) -> str:
    output = result.folder.parent
    ending = "stopped by a signal" if result.stop_signal else "done"
    lines = [f"{ending}: {result.rounds} rounds, {result.env_steps:,} environment steps"]
    models = [output / f"model_{config.name}{which}.pt" for which in ("", "_best")]
    if result.eval_return == result.eval_return:
        best = f"{result.best_return:.1f}" if result.best_return == result.best_return else "not written"
        lines[0] += f", evaluation return {result.eval_return:.1f} (best {best})"
        lines.append(f"  models       {', '.join(str(path) for path in models if path.exists()) or 'none'}")
        if config.solved_return is not None:
            verdict = "reached" if result.best_return >= config.solved_return else "not reached"
            lines.append(f"  standard     solved_return {config.solved_return:g}: {verdict}")
    lines.append(f"  run folder   {result.folder}")
    if (report := result.folder / "report.html").exists():
        lines.append(f"  report       {report}")
    if result.stop_signal:
        lines.append(f"go on with     {shlex.quote(f'resume={result.folder}')}")
    else:
        lines.append(
            f"look at it     tensorboard --logdir {shlex.quote(str(output))}  # start with its tab Custom Scalars"
        )
    return "\n".join(lines)


def _torchrun(options: argparse.Namespace) -> int:
    script = Path(__file__).resolve().parent.parent / "train.py"
    target = [str(script)] if script.exists() else ["-m", "ddp_ppo", "train"]
    words = ["--standalone", f"--nproc_per_node={options.nproc}", *target, options.config, *options.overrides]
    os.execv(sys.executable, [sys.executable, "-m", "torch.distributed.run", *words])


def _plan(options: argparse.Namespace) -> int:
    return _guarded(lambda: _show_plan(options))


def _show_plan(options: argparse.Namespace) -> int:
    from ddp_ppo.config import load_config
    from ddp_ppo.plan import plan_lines, plan_text, prepare

    _require_writable_json(options)
    plan = prepare(load_config(options.config, options.overrides), environ=dict(os.environ))
    if options.environments or options.keep:
        return _show_scale_up(options, plan)
    print(plan_text(plan))
    _write_json(options, {**plan_lines(plan), "notes": list(plan.notes)})
    print(f"check it       ddp-ppo check {shlex.join([options.config, *options.overrides])}")
    return 0


def _show_scale_up(options: argparse.Namespace, plan: Any) -> int:
    from ddp_ppo.config import ConfigError
    from ddp_ppo.plan import prepare
    from ddp_ppo.scale_up import KEEP, scale_up, scale_up_text

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


def _check(options: argparse.Namespace) -> int:
    return _guarded(lambda: _run_check(options))


def _run_check(options: argparse.Namespace) -> int:
    _use_one_thread()
    from ddp_ppo.check import check, check_document, closing_text
    from ddp_ppo.config import load_config

    _require_writable_json(options)
    config = load_config(options.config, options.overrides)
    result = check(config, environ=dict(os.environ), say=lambda text: print(text, flush=True))
    print(closing_text(result, shlex.join([options.config, *options.overrides])))
    _write_json(options, check_document(result))
    return 0 if result.has_passed else EXIT_FAILURE


def _bench(options: argparse.Namespace) -> int:
    return _guarded(lambda: _run_bench(options))


def _run_bench(options: argparse.Namespace) -> int:
    _use_one_thread()
    from ddp_ppo.bench import run
    from ddp_ppo.config import load_config
    from ddp_ppo.metrics import Console

    _require_writable_json(options)
    config = load_config(options.config, options.overrides)
    results = run(config, environ=dict(os.environ), seconds=options.seconds, console=Console())
    _write_json(options, {"candidates": [vars(result) for result in results]})
    print(f"train it       ddp-ppo train {shlex.join([options.config, *options.overrides])} {results[0].words}")
    return 0


def _use_one_thread() -> None:
    """Each process computes on one core: an unset BLAS takes all of them and is 16 times slower on small products."""
    os.environ.update({name: "1" for name in _BLAS_THREADS if name not in os.environ})


def _guarded(run: Callable[[], int]) -> int:
    """Turns the errors that a user can cause or must know of into one message and an exit status."""
    try:
        return run()
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        status = _status_of(error)
        if status is None:
            raise
        if status == EXIT_FAILURE or not _is_another_rank():  # every rank of a machine finds the same mistake
            with contextlib.suppress(OSError):  # the terminal has gone
                print(f"ddp-ppo: {error}", file=sys.stderr, flush=True)
        return status


def _is_another_rank() -> bool:
    """Whether another process of this torchrun launch says the same on this machine."""
    return "LOCAL_WORLD_SIZE" in os.environ and os.environ.get("LOCAL_RANK", "0") != "0"


def _status_of(error: Exception) -> int | None:
    from ddp_ppo.config import ConfigError
    from ddp_ppo.env_errors import EnvError

    if isinstance(error, ConfigError | EnvError):  # before torch, which takes 2 s to load
        return EXIT_USER_ERROR
    from ddp_ppo.actor_pool import ActorError
    from ddp_ppo.distributed import CollectiveError
    from ddp_ppo.finite import NonFiniteError
    from ddp_ppo.sync import ConsistencyError

    return EXIT_FAILURE if isinstance(error, ActorError | CollectiveError | ConsistencyError | NonFiniteError) else None


def _require_writable_json(options: argparse.Namespace) -> None:
    if options.json:
        _require_writable("--json", options.json)


def _require_writable(option: str, file: Path) -> None:
    """Refuses a result's file before the work, as far as can be known then."""
    from ddp_ppo.config import ConfigError

    place = file if file.exists() else file.absolute().parent
    if file.is_dir() or not (place.is_dir() or file.exists()) or not os.access(place, os.W_OK):
        raise ConfigError(f"{option}: {file} cannot be written; name a file in a folder that exists")


@contextlib.contextmanager
def _writing(option: str, file: Path) -> Iterator[None]:
    """Turns the error of a file that does not take a result into one line."""
    from ddp_ppo.config import ConfigError

    try:
        yield
    except OSError as error:
        raise ConfigError(f"{option}: {file} cannot be written: {error.strerror or error}") from error


def _write_json(options: argparse.Namespace, result: dict[str, Any]) -> None:
    """The last that a command does: its work and what it has printed are not lost with a full disk."""
    if options.json:
        with _writing("--json", options.json):
            options.json.write_text(json.dumps(result, indent=2, default=str) + "\n")


if __name__ == "__main__":
    command_line()
