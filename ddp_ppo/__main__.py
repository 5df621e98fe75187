"""Command line: `ddp-ppo COMMAND ...`, `python -m ddp_ppo COMMAND ...`.

Spawned actors import this file again, so its top level imports nothing but the standard library.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
EXIT_USER_ERROR = 2
EXIT_FAILURE = 1


def main(arguments: list[str] | None = None) -> int:
    """Runs one command.

    Returns:
        the exit status: 0 done, 1 a process of the run failed, 2 a mistake of the user, 130 / 143 after INT / TERM.
    """
    parser = _parser()
    options = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    command: Callable[[argparse.Namespace], int] = options.run
    return command(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ddp-ppo", description="PPO on every core and GPU of one machine.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, run, text in (
        ("train", _train, "train a configuration"),
        ("plan", _plan, "show what a run would do: ranks, actors, mini-batches, memory; starts nothing"),
        ("bench", _bench, "try actors x environments on this machine and name the quickest setting"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("config", help="YAML file")
        command.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="settings that replace the file's")
        command.add_argument("--json", metavar="FILE", help="write the result to this file")
        if name == "train":
            command.add_argument("--nproc", type=int, metavar="N", help="start N learners with torchrun")
        if name == "bench":
            command.add_argument("--seconds", type=float, default=60.0, help="how long to try (default 60)")
        command.set_defaults(run=run)
    replay = commands.add_parser("replay", help="drive environments to a value that was not finite again")
    replay.add_argument("evidence", help="evidence_*.pt of a run folder")
    replay.set_defaults(run=_replay)
    settings = commands.add_parser("settings", help="list every setting as a Markdown table")
    settings.set_defaults(run=_settings)
    return parser


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
    from ddp_ppo.processes import die_with_parent

    if "TORCHELASTIC_RUN_ID" in os.environ:
        die_with_parent()  # torchrun's workers outlive an agent that is killed; before torch, which takes 2 s to load
    _require_writable_json(options)
    config = load_config(options.config, options.overrides)
    from ddp_ppo.trainer import train

    result = train(config, environ=dict(os.environ))
    if result.folder is None:
        return 128 + result.stop_signal if result.stop_signal else 0
    _write_json(options, {**vars(result), "folder": str(result.folder)})
    print(_closing_words(result, config), flush=True)
    return 128 + result.stop_signal if result.stop_signal else 0


def _closing_words(result: Any, config: Any) -> str:
    output = result.folder.parent
    ending = "stopped by a signal" if result.stop_signal else "done"
    lines = [f"{ending}: {result.rounds} rounds, {result.env_steps:,} environment steps"]
    if result.eval_return == result.eval_return:
        lines[0] += f", evaluation return {result.eval_return:.1f} (best {result.best_return:.1f})"
        lines.append(f"  models       {output / f'model_{config.name}.pt'}, {output / f'model_{config.name}_best.pt'}")
        if config.solved_return is not None:
            verdict = "reached" if result.best_return >= config.solved_return else "not reached"
            lines.append(f"  standard     solved_return {config.solved_return:g}: {verdict}")
    lines.append(f"  run folder   {result.folder}")
    if result.stop_signal:
        lines.append(f"go on with     resume={result.folder}")
    else:
        lines.append(f"look at it     tensorboard --logdir {output}")
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

    plan = prepare(load_config(options.config, options.overrides), environ=dict(os.environ))
    _write_json(options, {**plan_lines(plan), "notes": list(plan.notes)})
    print(plan_text(plan))
    return 0


def _bench(options: argparse.Namespace) -> int:
    return _guarded(lambda: _run_bench(options))


def _run_bench(options: argparse.Namespace) -> int:
    _use_one_thread()
    from ddp_ppo.bench import run
    from ddp_ppo.config import load_config
    from ddp_ppo.metrics import Console

    config = load_config(options.config, options.overrides)
    results = run(config, environ=dict(os.environ), seconds=options.seconds, console=Console())
    _write_json(options, {"candidates": [vars(result) for result in results]})
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
        if status == EXIT_FAILURE or not _is_another_rank():  # every rank finds the same mistake
            print(f"ddp-ppo: {error}", file=sys.stderr, flush=True)
        return status


def _is_another_rank() -> bool:
    """Whether rank 0 of this torchrun launch says the same."""
    return "LOCAL_WORLD_SIZE" in os.environ and os.environ.get("RANK", "0") != "0"


def _status_of(error: Exception) -> int | None:
    from ddp_ppo.actor_pool import ActorError
    from ddp_ppo.checkpoint import CheckpointError
    from ddp_ppo.config import ConfigError
    from ddp_ppo.distributed import CollectiveError
    from ddp_ppo.env_errors import EnvError
    from ddp_ppo.finite import NonFiniteError
    from ddp_ppo.sync import ConsistencyError

    if isinstance(error, ConfigError | CheckpointError | EnvError):
        return EXIT_USER_ERROR
    return EXIT_FAILURE if isinstance(error, ActorError | CollectiveError | ConsistencyError | NonFiniteError) else None


def _require_writable_json(options: argparse.Namespace) -> None:
    from ddp_ppo.config import ConfigError

    if options.json and not os.access(Path(options.json).absolute().parent, os.W_OK):
        raise ConfigError(f"--json: {options.json} cannot be written; name a file in a folder that exists")


def _write_json(options: argparse.Namespace, result: dict[str, Any]) -> None:
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=2, default=str) + "\n")


if __name__ == "__main__":
    sys.exit(main())
