"""Pictures of a recorded episode, drawn in a process of its own: a crash or hang there is a reason and not an end.

What that process does is in drawing. MuJoCo draws by EGL, OSMesa or GLFW: the first whose process brings a picture in
time is taken. Nothing is drawn in the calling process. Torch-free.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ddp_ppo.errors import describe_cause
from ddp_ppo.evaluation.drawing import Film, NoPictureError, Scene, film_scene, show_scene
from ddp_ppo.processes.apart import new_process
from ddp_ppo.processes.lifetime import die_with_parent, lead_group

START_SECONDS = 60.0  # for the first picture
_PICTURE_SECONDS = 1.0  # for each further one, in software on a busy machine
_WATCH_SECONDS = 24 * 3600.0  # a viewer stays until it is closed
_INSTALL = "MuJoCo draws with one of: apt-get install libegl1 libgl1 (EGL), apt-get install libosmesa6 (OSMesa)"


class RenderError(RuntimeError):
    """Nothing could be drawn; one line that says why."""


class _OtherError(RenderError):
    """Not a matter of what MuJoCo draws with."""


class _LostError(RenderError):
    """The process went away after its first picture."""


def has_display() -> bool:
    """Whether a window could be opened here."""
    return sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))


def show(scene: Scene) -> None:
    """Shows the episode in a window, as fast as it was; returns when it is over or the window is closed.

    Raises:
        RenderError: no window could be opened.
    """
    try:
        _apart(show_scene, (scene,), backend="glfw", seconds=_WATCH_SECONDS)
    except _LostError:  # Gymnasium's window for MuJoCo takes its process with it when it is closed
        return


def video_ending() -> str:
    """What kind of video can be written here: .mp4 needs imageio-ffmpeg."""
    return ".mp4" if importlib.util.find_spec("imageio_ffmpeg") else ".gif"


def film(
    scene: Scene, path: Path, *, max_fps: float | None = None, tell_started: Callable[[], None] = lambda: None
) -> Film:
    """Writes a video, and a still with the same name but .png.

    Args:
        path: ends with .mp4 or .gif.
        max_fps: no more pictures a second than this; the default is the format's own limit.
        tell_started: called when the first picture is there; the others take up to a minute without a GPU.

    Raises:
        RenderError: nothing here draws this environment, with each reason.
        OSError: the folder cannot be written.
    """
    seconds = START_SECONDS + _PICTURE_SECONDS * len(scene.act)
    reasons = []
    for backend in _backends():
        with TemporaryDirectory(prefix=".drawing_", dir=path.parent) as folder:  # a process that dies leaves its files
            try:
                what = scene, Path(folder) / path.name, max_fps
                made: Film = _apart(film_scene, what, backend=backend, seconds=seconds, tell_started=tell_started)
                return made._replace(path=made.path.replace(path), still=made.still.replace(path.with_suffix(".png")))
            except _OtherError as error:
                raise RenderError(str(error)) from None
            except RenderError as error:
                reasons.append(f"{backend}: {error}")
    raise RenderError("; ".join([*reasons, *([_INSTALL] if sys.platform == "linux" else [])]))


def _backends() -> tuple[str, ...]:
    """MuJoCo's ways to draw without a window, the quickest first; a choice of the user's stands."""
    chosen = os.environ.get("MUJOCO_GL")
    if chosen:
        return (chosen.lower(),)
    return ("egl", "osmesa", "glfw") if sys.platform == "linux" else ("glfw",)


def _apart(
    task: Callable[..., Any],
    arguments: tuple[Any, ...],
    *,
    backend: str,
    seconds: float,
    tell_started: Callable[[], None] = lambda: None,
) -> Any:
    """Runs the task in a process of its own and returns its result; it says when its first picture is there.

    Raises:
        RenderError: what went wrong there, or that it took too long.
    """
    with new_process(_child, backend, task, arguments) as (connection, child):
        kind_of_error = RenderError
        try:
            _receive(connection, START_SECONDS)  # the first picture
            tell_started()
            kind_of_error = _LostError
            return _receive(connection, seconds)
        except EOFError:
            child.join()
            raise kind_of_error(f"its process ended with {_ending(child.exitcode)}") from None


def _receive(connection: Connection, seconds: float) -> Any:
    """The next result; raises what was raised there, and EOFError where the process is gone."""
    if not connection.poll(seconds):
        raise RenderError(f"no answer within {seconds:g} s")
    answer = connection.recv()
    if isinstance(answer, RenderError):
        raise answer
    return answer


def _ending(code: int | None) -> str:
    return f"status {code}" if code is None or code >= 0 else f"signal {signal.Signals(-code).name}"


def _child(connection: Connection, backend: str, task: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """The process that draws. What graphics libraries print there is dropped."""
    lead_group()  # the environment may have processes of its own
    die_with_parent()
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    os.environ["MUJOCO_GL"] = backend
    try:
        answer = task(*arguments, lambda: connection.send(None))
    except Exception as error:  # whatever graphics and a user's environment raise becomes the reason
        uses_mujoco = any(name.partition(".")[0] == "mujoco" for name in sys.modules)
        is_its_matter = uses_mujoco and not isinstance(error, NoPictureError)
        answer = (RenderError if is_its_matter else _OtherError)(describe_cause(error))
    connection.send(answer)
