"""The one exception of the environment layer, and how whatever else an environment raises becomes one."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PATHS = sysconfig.get_paths()
# Code that is nobody's environment: this package, Python's own modules, installed packages, frozen modules.
_OTHERS = (str(Path(__file__).parent), _PATHS["stdlib"], _PATHS["purelib"], _PATHS["platlib"], "<")

FAULTS = (Exception, SystemExit)  # an environment's own; KeyboardInterrupt is a person's


class EnvError(ValueError):
    """An environment cannot be built, restored or stepped; one line that says which, where and why."""


def describe_cause(error: BaseException) -> str:
    """One line for a foreign exception and the place in the user's code; an EnvError speaks for itself."""
    text = text_of(error)
    if is_left_debugger(error):
        return "a breakpoint: the debugger has no terminal here, or was left; step through it with ddp-ppo step"
    if isinstance(error, EnvError):
        return text
    place = _own_place(error)
    text = text or (place.line if place and place.line else "")
    where = f" (in {place.name}, {place.filename}:{place.lineno})" if place else ""
    return f"{type(error).__name__}: {text}".removesuffix(": ") + where


def _own_place(error: BaseException) -> traceback.FrameSummary | None:
    """The innermost line of a traceback that belongs to the user; None where all of it is of installed packages."""
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame for frame in reversed(frames) if not frame.filename.startswith(_OTHERS)), None)


def first_cause(error: BaseException) -> BaseException:
    """What an error goes back to: of an EnvError what the environment itself has raised, if it has."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def is_left_debugger(error: BaseException) -> bool:
    """Whether it is what Python's debugger raises when it is left, or finds no terminal."""
    return type(error).__name__ == "BdbQuit"


def text_of(error: BaseException) -> str:
    """What an exception says, in one line that can be printed, whatever it does when it is asked."""
    try:
        text = " ".join(str(error).split())
    except FAULTS as another:
        return f"(its text cannot be shown: {type(another).__name__})"
    return printable(text)


def printable(text: str) -> str:
    """The same with what UTF-8 cannot hold, halves of surrogate pairs, as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


@contextmanager
def blamed(where: str) -> Iterator[None]:
    """Has whatever the environment raises end in an EnvError that begins with `where`."""
    try:
        yield
    except FAULTS as error:
        raise EnvError(f"{where}: {describe_cause(error)}") from error
