"""The words of the command line: each command's arguments and options, in one function per command.

Only the standard library is imported at the top level: spawned actors import this module.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from ddp_ppo import __version__
from ddp_ppo.cli import commands


def command_parser() -> argparse.ArgumentParser:
    """The parser of all commands; the namespace that it returns has the command's function as `run`."""
    parser = argparse.ArgumentParser(prog="ddp-ppo", description="PPO on every core and GPU of a machine.")
    parser.add_argument("--version", action="version", version=f"ddp-ppo {__version__}")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for add_options, run, name, text in _COMMANDS:
        command = subparsers.add_parser(name, help=text, description=text)
        add_options(command)
        command.set_defaults(run=run)
    return parser


def _configured(command: argparse.ArgumentParser, *, has_json: bool = True) -> None:
    """What every command that takes a configuration has."""
    command.add_argument("config", help="YAML file, name of a shipped configuration, or environment id")
    command.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="settings that override the file")
    if has_json:
        _json(command, "result")


def _json(command: argparse.ArgumentParser, what: str) -> None:
    command.add_argument("--json", type=_path, metavar="FILE", help=f"write the {what} to this file")


def _train(command: argparse.ArgumentParser) -> None:
    _configured(command)
    command.add_argument("--nproc", type=_whole(1), metavar="N", help="start N learners with torchrun")


def _plan(command: argparse.ArgumentParser) -> None:
    _configured(command)
    help_text = "processes that torchrun would start (default: one for each visible GPU, as run.sh does)"
    command.add_argument("--nproc", type=_whole(1), metavar="N", help=help_text)
    help_text = "compare with a multiple of the environments (4x), or with N in total"
    command.add_argument("--environments", metavar="4x|N", help=help_text)
    help_text = "the quantity to keep constant with --environments"
    command.add_argument("--keep", choices=("transitions", "minibatch_size", "updates"), help=help_text)


def _bench(command: argparse.ArgumentParser) -> None:
    _configured(command)
    command.add_argument("--seconds", type=float, default=60.0, help="duration of the measurement (default 60)")


def _step(command: argparse.ArgumentParser) -> None:
    _configured(command, has_json=False)
    help_text = "random (default), zero, or a .csv or .npz file of actions as for play"
    command.add_argument("--actions", default="random", metavar="random|zero|FILE", help=help_text)
    help_text = "run folder, checkpoint or model file whose policy acts instead"
    command.add_argument("--policy", type=_place, metavar="MODEL", help=help_text)
    command.add_argument("--steps", type=_whole(1), default=100, metavar="N", help="number of steps (default: 100)")
    help_text = "of the reset and of random actions (default: the configuration's)"
    command.add_argument("--seed", type=_whole(0), help=help_text)


def _evaluate(command: argparse.ArgumentParser) -> None:
    help_text = "run folder, checkpoint or model file; settings of the environment replace those of its training"
    command.add_argument("models", nargs="+", type=_place_or_setting, metavar="MODEL|KEY=VALUE", help=help_text)
    help_text = "number of episodes (default: eval_episodes of the run)"
    command.add_argument("--episodes", type=_whole(1), metavar="N", help=help_text)
    command.add_argument("--seed", type=_whole(0), help="root of the episodes' seeds (default: the run's seed)")
    command.add_argument("--stochastic", action="store_true", help="also run them with sampled actions")
    help_text = "table of the episodes (default: evaluation.csv in the folder of the first model)"
    command.add_argument("--csv", type=_path, metavar="FILE", help=help_text)
    _json(command, "result")


def _play(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", type=_place, metavar="MODEL", help="run folder, checkpoint or model file")
    help_text = "settings of the environment that replace those of its training"
    command.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help=help_text)
    command.add_argument("--episodes", type=_whole(1), default=1, metavar="N", help="number of episodes (default: 1)")
    command.add_argument("--seed", type=_whole(0), help="root of the episodes' seeds (default: the run's seed)")
    command.add_argument("--steps", type=_whole(1), metavar="N", help="cut longer episodes after N steps")
    help_text = "replay the environment's actions from a .npz file (of an earlier play) or a .csv file"
    command.add_argument("--actions", type=_path, metavar="FILE", help=help_text)
    help_text = "folder for the files; writes a video even with a display (default: play in the run folder)"
    command.add_argument("--out", type=_path, metavar="DIR", help=help_text)
    command.add_argument("--fps", type=_whole(1), metavar="N", help="maximum frames per second of the video")
    _json(command, "result")


def _export(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", type=_place, metavar="MODEL", help="run folder, checkpoint or model file")
    help_text = "folder for the files (default: MODEL_export next to the model file)"
    command.add_argument("--out", type=_path, metavar="DIR", help=help_text)
    _json(command, "result")


def _report(command: argparse.ArgumentParser) -> None:
    command.add_argument("folder", type=_place, metavar="RUN", help="run folder")
    command.add_argument("--out", type=_path, metavar="FILE", help="page (default: report.html in the run folder)")
    _json(command, "record")


def _weights(command: argparse.ArgumentParser) -> None:
    help_text = "file (default: in the user's cache, where training finds it)"
    command.add_argument("--out", type=_path, metavar="PATH", help=help_text)


def _compare(command: argparse.ArgumentParser) -> None:
    command.add_argument("folders", nargs="+", type=_place, metavar="RUN", help="run folder")
    help_text = "train stable-baselines3's PPO with the same settings and add it"
    command.add_argument("--against", choices=("sb3",), help=help_text)
    help_text = "a setting or version that may differ within a group of runs; can be repeated"
    command.add_argument("--ignore", action="append", default=[], metavar="NAME", help=help_text)
    help_text = "page (default: compare.html next to the first run folder)"
    command.add_argument("--out", type=_path, metavar="FILE", help=help_text)
    command.add_argument("--png", type=_path, metavar="FILE", help="draw the learning curves with matplotlib")
    _json(command, "result")


def _replay(command: argparse.ArgumentParser) -> None:
    command.add_argument("evidence", type=_place, help="evidence_*.pt in a run folder")


def _nothing(command: argparse.ArgumentParser) -> None:
    """A command without options."""


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


def _place_or_setting(text: str) -> str:
    """A type of argument: a path, or a key=value setting as it stands."""
    return text if commands.is_setting(text) else _place(text)


def _path(text: str) -> Path:
    """An argument type: an absolute path, which stays the same if an environment changes the current folder."""
    return Path(_place(text)).absolute()


_COMMANDS: tuple[tuple[Callable[[argparse.ArgumentParser], None], Callable[..., int], str, str], ...] = (
    (_train, commands.run_training, "train", "train a configuration"),
    (_plan, commands.show_plan, "plan", "show the ranks, actors, mini-batches and memory of a run; starts nothing"),
    (
        _configured,
        commands.run_check,
        "check",
        "check stage by stage whether a task and its configuration are fit to train",
    ),
    (
        _bench,
        commands.run_bench,
        "bench",
        "try numbers of actors and environments on this machine and print the fastest",
    ),
    (_step, commands.step_environment, "step", "step one environment in the foreground, where breakpoints work"),
    (_evaluate, commands.run_evaluation, "evaluate", "run episodes on fixed seeds: returns, intervals, verdicts"),
    (_play, commands.run_episodes, "play", "run and record episodes: a window or a video, curves, the trajectory"),
    (_export, commands.run_export, "export", "write a policy as ONNX and for plain NumPy, and compare the results"),
    (_report, commands.write_report_of, "report", "write a run's curves, times and settings as one HTML file"),
    (_weights, commands.fetch_weights, "disco-weights", "download the published weights that learner: disco needs"),
    (_compare, commands.run_comparison, "compare", "compare runs: differences, curves over seeds, a verdict"),
    (_replay, commands.show_replay, "replay", "repeat the steps that led to a non-finite value"),
    (_nothing, commands.show_settings, "settings", "list every setting as a Markdown table"),
    (_nothing, commands.show_metrics, "metrics", "list every metric as Markdown tables"),
)
