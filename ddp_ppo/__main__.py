"""Command line: `ddp-ppo COMMAND ...`, `python -m ddp_ppo COMMAND ...`.

This module turns errors into messages and ends the program; `cli/parser.py` has the options, `cli/commands.py` the
commands.
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
from typing import NoReturn

from ddp_ppo.cli.commands import EXIT_FAILURE, EXIT_USER_ERROR
from ddp_ppo.cli.parser import command_parser

_HASH_SEED = "PYTHONHASHSEED"
_BUILDING = ("evaluate", "play", "export", "check", "replay")  # build environments here; sets have the actors' order


def main(arguments: list[str] | None = None, *, may_restart: bool = False) -> int:
    """Runs one command.

    Args:
        may_restart: start this program again, once, if environments can only draw with another MUJOCO_GL.

    Returns:
        the exit status: 0 for success, 1 if a process of the run failed, 2 for a mistake of the user; 129, 130 and 143
        after HUP, INT and TERM.
    """
    parser = command_parser()
    options = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    command: Callable[[argparse.Namespace], int] = options.run
    return _guarded(lambda: command(options), may_restart=may_restart)


def command_line(arguments: list[str] | None = None) -> NoReturn:
    """`main` as a complete program: it ends with its command, whatever an environment has left running in it.

    If a reader of its output exits, such as `head`, the program continues and still writes its files.
    """
    from ddp_ppo.processes.lifetime import outlast_readers

    outlast_readers(BrokenPipeError)
    words = sys.argv[1:] if arguments is None else arguments
    if words and words[0] in _BUILDING and os.environ.get(_HASH_SEED, "random") == "random":
        _restart({_HASH_SEED: "0"})
    try:
        status = main(arguments, may_restart=True)
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


def _restart(variables: dict[str, str]) -> NoReturn:
    """Starts this program again, in the same process, with these environment variables."""
    os.environ.update(variables)
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _guarded(run: Callable[[], int], *, may_restart: bool = False) -> int:
    """Turns the errors that a user can cause or must know about into one message and an exit status."""
    try:
        return run()
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if may_restart and (works := getattr(error, "works", None)):  # of a GraphicsError
            print(f"{error}: starting again with it", file=sys.stderr, flush=True)
            _restart({"MUJOCO_GL": works})
        status = _status_of(error)
        if status is None:
            raise
        if status == EXIT_FAILURE or not _is_another_rank():  # every rank of a machine reports the same mistake
            with contextlib.suppress(OSError):  # the terminal is closed
                separator = "\n" if "\n" in str(error) else "; "  # what is one line stays one
                text = separator.join([f"ddp-ppo: {error}", *getattr(error, "__notes__", [])])
                print(text, file=sys.stderr, flush=True)
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
