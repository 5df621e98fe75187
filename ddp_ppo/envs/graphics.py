"""What to do if an environment draws its observations on a machine without a display: MuJoCo's MUJOCO_GL.

Which of its ways to draw works is tried in processes of their own: one that fails may take its process with it, and
MuJoCo reads the variable only once, when it is imported.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ddp_ppo.errors import EnvError

VARIABLE = "MUJOCO_GL"
_TRY_SECONDS = 60.0
_DRAW = "import mujoco; mujoco.GLContext(16, 16).make_current()"
_SIGNS = re.compile(r"opengl|glgeterror|glcontext|glfw|\begl\b|osmesa|mujoco_gl|\bDISPLAY\b", re.IGNORECASE)
_INSTALL = {"egl": "apt-get install libegl1 libgl1", "osmesa": "apt-get install libosmesa6"}


class GraphicsError(EnvError):
    """An environment cannot draw here.

    Attributes:
        works: the value of MUJOCO_GL with which a new process could; None if there is none, or the user has chosen.
    """

    works: str | None = None


@contextmanager
def explained() -> Iterator[None]:
    """Has an EnvError that comes from drawing say what to set or to install, as a GraphicsError."""
    try:
        yield
    except GraphicsError:
        raise
    except EnvError as error:
        if sys.platform != "linux" or not _SIGNS.search(str(error)) or _has_display():
            raise
        chosen = os.environ.get(VARIABLE)
        works = None if chosen else next((way for way in _INSTALL if _draws(way)), None)
        explanation = GraphicsError(f"{error}; {_advice(chosen, works)}")
        explanation.works = works
        raise explanation from error


def _has_display() -> bool:
    """Whether drawing does not have to go without one."""
    return not os.environ.get(VARIABLE) and any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))


def _draws(way: str) -> bool:
    environ = {**os.environ, VARIABLE: way}
    try:
        done = subprocess.run([sys.executable, "-c", _DRAW], env=environ, capture_output=True, timeout=_TRY_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _advice(chosen: str | None, works: str | None) -> str:
    if works:
        return f"there is no display here: set {VARIABLE}={works}"
    install = " or ".join(f"{packages} ({VARIABLE}={way})" for way, packages in _INSTALL.items())
    what = f"{VARIABLE}={chosen} does not work here" if chosen else "there is no display here"
    return f"{what}: {install}"
