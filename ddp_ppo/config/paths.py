"""Paths as a person writes them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from ddp_ppo.config.yaml_text import RefusedError

_VARIABLE = re.compile(r"\$(?:(\w+)|\{([^}]*)\})", re.ASCII)


def expand_path(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """The path with `~`, `~user`, `$NAME` and `${NAME}` replaced by what they stand for.

    Raises:
        RefusedError: a variable is not set.
    """

    def value_of(match: re.Match[str]) -> str:
        name = match[1] or match[2] or ""
        if name not in environ:
            raise RefusedError(f"the environment variable {match[0]} is not set")
        return environ[name]

    return _VARIABLE.sub(value_of, os.path.expanduser(text))
