"""The one exception of the environment layer, and how whatever else an environment raises becomes one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

FAULTS = (Exception, SystemExit)  # an environment's own; KeyboardInterrupt is a person's


class EnvError(ValueError):
    """An environment cannot be built, restored or stepped; one line that says which, where and why."""


def describe_cause(error: BaseException) -> str:
    """One line for a foreign exception; an EnvError speaks for itself."""
    text = text_of(error)
    return text if isinstance(error, EnvError) else f"{type(error).__name__}: {text}".removesuffix(": ")


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
