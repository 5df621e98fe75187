"""The one exception of the environment layer."""

from __future__ import annotations


class EnvError(ValueError):
    """An environment cannot be built, restored or stepped; one line that says which, where and why."""


def describe_cause(error: BaseException) -> str:
    """One line for a foreign exception; an EnvError speaks for itself."""
    text = " ".join(str(error).split())
    return text if isinstance(error, EnvError) else f"{type(error).__name__}: {text}"
