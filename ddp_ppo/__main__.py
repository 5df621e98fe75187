"""Command line: `ddp-ppo COMMAND ...`, `python -m ddp_ppo COMMAND ...`.

This module parses the arguments, turns errors into messages and ends the program; `cli/commands.py` has the commands.
Spawned actors import this file again, so its top level imports nothing but the standard library.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from ddp_ppo.cli import commands
from ddp_ppo.cli.commands import EXIT_FAILURE, EXIT_USER_ERROR


def main(arguments: list[str] | None = None) -> int:
    """Runs one command.

    Returns:
        the exit status: 0 for success, 1 if a process of the run failed, 2 for a mistake of the user; 129, 130 and 143
        after HUP, INT and TERM.
    """
    parser = _parser()
    options = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    command: Callable[[argparse.Namespace], int] = options.run
    return _guarded(lambda: command(options))


def command_line(arguments: list[str] | None = None) -> NoReturn:
    """`main` as a complete program: it ends with its command, whatever an environment has left running in it.

    If a reader of its output exits, such as `head`, the program continues and still writes its files.
    """
    from ddp_ppo.processes.lifetime import outlast_readers

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
            with contextlib.suppress(OSError, ValueError):  # its reader has gone
                stream.flush()
        os._exit(status)  # Python would wait for them
    sys.exit(status)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ddp-ppo", description="PPO on every core and GPU of a machine.")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, run, text in (
        ("train", commands.run_training, "train a configuration"),
        ("plan", commands.show_plan, "show the ranks, actors, mini-batches and memory of a run; starts nothing"),
        ("check", commands.run_check, "check stage by stage whether a task and its configuration are fit to train"),
        ("bench", commands.run_bench, "try numbers of actors and environments on this machine and print the fastest"),
    ):
        command = subparsers.add_parser(name, help=text, description=text)
        command.add_argument("config", help="YAML file, name of a shipped configuration, or environment id")
        command.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="settings that override the file")
        command.add_argument("--json", type=_path, metavar="FILE", help="write the result to this file")
        if name == "train":
            command.add_argument("--nproc", type=int, metavar="N", help="start N learners with torchrun")
        if name == "plan":
            help_text = "compare with a multiple of the environments (4x), or with N in total"
            command.add_argument("--environments", metavar="4x|N", help=help_text)
            help_text = "the quantity to keep constant with --environments"
            command.add_argument("--keep", choices=("transitions", "minibatch_size", "updates"), help=help_text)
        if name == "bench":
            command.add_argument("--seconds", type=float, default=60.0, help="duration of the measurement (default 60)")
        command.set_defaults(run=run)
    evaluate = subparsers.add_parser("evaluate", help="run episodes on fixed seeds: returns, intervals, verdicts")
    evaluate.add_argument(
        "models", nargs="+", type=_place, metavar="MODEL", help="run folder, checkpoint or model file"
    )
    help_text = "number of episodes (default: eval_episodes of the run)"
    evaluate.add_argument("--episodes", type=_whole(1), metavar="N", help=help_text)
    evaluate.add_argument("--seed", type=_whole(0), help="root of the episodes' seeds (default: the run's seed)")
    evaluate.add_argument("--stochastic", action="store_true", help="also run them with sampled actions")
    help_text = "table of the episodes (default: evaluation.csv in the folder of the first model)"
    evaluate.add_argument("--csv", type=_path, metavar="FILE", help=help_text)
    evaluate.add_argument("--json", type=_path, metavar="FILE", help="write the result to this file")
    evaluate.set_defaults(run=commands.run_evaluation)
    play = subparsers.add_parser("play", help="run and record episodes: a window or a video, curves, the trajectory")
    play.add_argument("model", type=_place, metavar="MODEL", help="run folder, checkpoint or model file")
    play.add_argument("--episodes", type=_whole(1), default=1, metavar="N", help="number of episodes (default: 1)")
    play.add_argument("--seed", type=_whole(0), help="root of the episodes' seeds (default: the run's seed)")
    play.add_argument("--steps", type=_whole(1), metavar="N", help="cut longer episodes after N steps")
    help_text = "replay the environment's actions from a .npz file (of an earlier play) or a .csv file"
    play.add_argument("--actions", type=_path, metavar="FILE", help=help_text)
    help_text = "folder for the files; writes a video even with a display (default: play in the run folder)"
    play.add_argument("--out", type=_path, metavar="DIR", help=help_text)
    play.add_argument("--fps", type=_whole(1), metavar="N", help="maximum frames per second of the video")
    play.add_argument("--json", type=_path, metavar="FILE", help="write the result to this file")
    play.set_defaults(run=commands.run_episodes)
    export = subparsers.add_parser("export", help="write a policy as ONNX and for plain NumPy, and compare the results")
    export.add_argument("model", type=_place, metavar="MODEL", help="run folder, checkpoint or model file")
    help_text = "folder for the files (default: MODEL_export next to the model file)"
    export.add_argument("--out", type=_path, metavar="DIR", help=help_text)
    export.add_argument("--json", type=_path, metavar="FILE", help="write the result to this file")
    export.set_defaults(run=commands.run_export)
    report = subparsers.add_parser("report", help="write a run's curves, times and settings as one HTML file")
    report.add_argument("folder", type=_place, metavar="RUN", help="run folder")
    report.add_argument("--out", type=_path, metavar="FILE", help="page (default: report.html in the run folder)")
    report.add_argument("--json", type=_path, metavar="FILE", help="write the record to this file")
    report.set_defaults(run=commands.write_report_of)
    weights = subparsers.add_parser("disco-weights", help="download the published weights that learner: disco needs")
    help_text = "file (default: in the user's cache, where training finds it)"
    weights.add_argument("--out", type=_path, metavar="PATH", help=help_text)
    weights.set_defaults(run=commands.fetch_weights)
    compare = subparsers.add_parser("compare", help="compare runs: differences, curves over seeds, a verdict")
    compare.add_argument("folders", nargs="+", type=_place, metavar="RUN", help="run folder")
    help_text = "train stable-baselines3's PPO with the same settings and add it"
    compare.add_argument("--against", choices=("sb3",), help=help_text)
    help_text = "a setting or version that may differ within a group of runs; can be repeated"
    compare.add_argument("--ignore", action="append", default=[], metavar="NAME", help=help_text)
    help_text = "page (default: compare.html next to the first run folder)"
    compare.add_argument("--out", type=_path, metavar="FILE", help=help_text)
    compare.add_argument("--png", type=_path, metavar="FILE", help="draw the learning curves with matplotlib")
    compare.add_argument("--json", type=_path, metavar="FILE", help="write the result to this file")
    compare.set_defaults(run=commands.run_comparison)
    replay = subparsers.add_parser("replay", help="repeat the steps that led to a non-finite value")
    replay.add_argument("evidence", type=_place, help="evidence_*.pt in a run folder")
    replay.set_defaults(run=commands.show_replay)
    settings = subparsers.add_parser("settings", help="list every setting as a Markdown table")
    settings.set_defaults(run=commands.show_settings)
    metrics = subparsers.add_parser("metrics", help="list every metric as Markdown tables")
    metrics.set_defaults(run=commands.show_metrics)
    return parser


def _whole(low: int) -> Callable[[str], int]:
    """An argument type: a whole number of at least `low`."""

    def whole_number(text: str) -> int:
        if not text.isdecimal() or int(text) < low:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number >= {low}")
        return int(text)

    return whole_number


def _place(text: str) -> str:
    """A type of argument: a path as a person writes it, with `~` and `$VARIABLES`."""
    from ddp_ppo.config.paths import expand_path
    from ddp_ppo.config.yaml_text import RefusedError

    try:
        return expand_path(text)
    except RefusedError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error}") from error


def _path(text: str) -> Path:
    """An argument type: an absolute path, which stays the same if an environment changes the current folder."""
    return Path(_place(text)).absolute()


def _guarded(run: Callable[[], int]) -> int:
    """Turns the errors that a user can cause or must know about into one message and an exit status."""
    try:
        return run()
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        status = _status_of(error)
        if status is None:
            raise
        if status == EXIT_FAILURE or not _is_another_rank():  # every rank of a machine reports the same mistake
            with contextlib.suppress(OSError):  # the terminal is closed
                print(f"ddp-ppo: {error}", file=sys.stderr, flush=True)
        return status


def _is_another_rank() -> bool:
    """Whether another process of this torchrun launch reports the same on this machine."""
    return "LOCAL_WORLD_SIZE" in os.environ and os.environ.get("LOCAL_RANK", "0") != "0"


def _status_of(error: Exception) -> int | None:
    from ddp_ppo.config.settings import ConfigError
    from ddp_ppo.errors import EnvError

    if isinstance(error, ConfigError | EnvError):  # before torch, which takes 2 s to load
        return EXIT_USER_ERROR
    from ddp_ppo.distributed.group import CollectiveError
    from ddp_ppo.sampling.actor_pool import ActorError
    from ddp_ppo.sampling.finite import NonFiniteError
    from ddp_ppo.training.sync import ConsistencyError

    return EXIT_FAILURE if isinstance(error, ActorError | CollectiveError | ConsistencyError | NonFiniteError) else None


if __name__ == "__main__":
    command_line()
