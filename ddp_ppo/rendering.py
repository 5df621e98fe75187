"""Pictures of a recorded episode, drawn in a process of its own: a crash or hang there is a reason and not an end.

That process plays the episode's seed and actions again in Gymnasium's own class, which alone knows how to draw, and
measures whether the same rewards come out. MuJoCo draws by EGL, OSMesa or GLFW: the first whose process brings a
picture in time is taken. Nothing is drawn in the calling process. Torch-free.

Shapes: T steps of the episode, A action size; a picture is uint8 [height, width, 3].
"""

from __future__ import annotations

import importlib.util
import math
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.env_errors import EnvError, describe_cause
from ddp_ppo.env_spaces import action_decoder
from ddp_ppo.envs import own_class_path
from ddp_ppo.gymnasium_env import build_env
from ddp_ppo.processes import die_with_parent

Picture = NDArray[np.uint8]
SIZE = (480, 320)  # of MuJoCo's pictures: width, height; not above the 480 x 480 that a model has room for
WINDOW_SIZE = (1200, 800)
MAX_FPS = {".mp4": 60.0, ".gif": 25.0}  # browsers play GIF frames of less than 20 ms ten times too slowly
START_SECONDS = 60.0  # for the first picture
_PICTURE_SECONDS = 1.0  # for each further one, in software on a busy machine
_WATCH_SECONDS = 24 * 3600.0  # a viewer stays until it is closed
_SHADOW_SIZE = 1024  # MuJoCo's 4096 takes more than half of the time where a CPU draws (42 instead of 103 ms)
_COLOURS = 128  # of a GIF
_STRIP = 6  # pictures side by side in the still
_DEFAULT_FPS = 30.0  # of an environment that does not say
_TRACKING_CAMERA = "track"  # of Gymnasium's models; its own default camera lets the robot run out of the picture
_INSTALL = "MuJoCo draws with one of: apt-get install libegl1 libgl1 (EGL), apt-get install libosmesa6 (OSMesa)"


class RenderError(RuntimeError):
    """Nothing could be drawn; one line that says why."""


class _OtherError(RenderError):
    """Not a matter of what MuJoCo draws with."""


class _LostError(RenderError):
    """The process went away after its first picture."""


@dataclass(frozen=True)
class Scene:
    """What is to be drawn.

    Attributes:
        env_arguments: keyword arguments of `envs.make_batch_env` but num_envs.
        act: [T, A] float32 within the bounds or [T] int64.
        reward: [T] that the actions brought when they were recorded.
    """

    env_arguments: Mapping[str, Any]
    seed: int
    act: NDArray[Any]
    reward: NDArray[np.float64]


class Film(NamedTuple):
    """A video that was written.

    Attributes:
        path: .mp4 or .gif.
        still: a .png with some of its pictures side by side.
        backend: what MuJoCo drew with; empty for other environments.
        num_pictures, fps: of the video; it plays as fast as the episode was.
        drift: largest difference of a reward from the recorded one.
    """

    path: Path
    still: Path
    backend: str
    num_pictures: int
    fps: float
    drift: float


def has_display() -> bool:
    """Whether a window could be opened here."""
    return sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))


def show(scene: Scene) -> None:
    """Shows the episode in a window, as fast as it was; returns when it is over or the window is closed.

    Raises:
        RenderError: no window could be opened.
    """
    try:
        _apart(_show, (scene,), backend="glfw", seconds=_WATCH_SECONDS)
    except _LostError:  # Gymnasium's window for MuJoCo takes its process with it when it is closed
        return


def video_ending() -> str:
    """What kind of video can be written here: .mp4 needs imageio-ffmpeg."""
    return ".mp4" if importlib.util.find_spec("imageio_ffmpeg") else ".gif"


def film(scene: Scene, path: Path, max_fps: float | None = None) -> Film:
    """Writes a video, and a still with the same name but .png.

    Args:
        path: ends with .mp4 or .gif.
        max_fps: no more pictures a second than this; the default is the format's own limit.

    Raises:
        RenderError: nothing here draws this environment, with each reason.
        OSError: the folder cannot be written.
    """
    max_fps = min(max_fps or math.inf, MAX_FPS[path.suffix])
    seconds = START_SECONDS + _PICTURE_SECONDS * len(scene.act)
    reasons = []
    for backend in _backends():
        with TemporaryDirectory(prefix=".drawing_", dir=path.parent) as folder:  # a process that dies leaves its files
            try:
                made: Film = _apart(_film, (scene, Path(folder) / path.name, max_fps), backend=backend, seconds=seconds)
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


def _apart(task: Callable[..., Any], arguments: tuple[Any, ...], *, backend: str, seconds: float) -> Any:
    """Runs the task in a process of its own and returns its result; it says when its first picture is there.

    Raises:
        RenderError: what went wrong there, or that it took too long.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(theirs, backend, task, arguments), daemon=True)
    child.start()
    theirs.close()
    kind_of_error = RenderError
    try:
        _receive(ours, START_SECONDS)  # the first picture
        kind_of_error = _LostError
        return _receive(ours, seconds)
    except EOFError:
        child.join()
        raise kind_of_error(f"its process ended with {_ending(child.exitcode)}") from None
    finally:
        child.kill()
        child.join()
        ours.close()


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
    die_with_parent()
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    os.environ["MUJOCO_GL"] = backend
    try:
        answer = task(*arguments, lambda: connection.send(None))
    except Exception as error:  # whatever graphics and a user's environment raise becomes the reason
        uses_mujoco = any(name.partition(".")[0] == "mujoco" for name in sys.modules)
        answer = (RenderError if uses_mujoco else _OtherError)(describe_cause(error))
    connection.send(answer)


class _Replay:
    """A scene in an environment that draws; `drift` is the largest difference of a reward so far."""

    def __init__(self, scene: Scene, mode: str) -> None:
        arguments = {"env_kwargs": {}, "backend": "auto", "max_episode_steps": None, **scene.env_arguments}
        own_class = own_class_path(arguments["env_id"], arguments["backend"])
        if own_class is not None:
            raise EnvError(f"{own_class} is no Gymnasium environment; only those can be drawn")
        self.env_kwargs: Mapping[str, Any] = arguments["env_kwargs"]
        drawing = {**self.env_kwargs, "render_mode": mode}
        self.env, _ = build_env(arguments["env_id"], drawing, arguments["max_episode_steps"])
        self.drift = 0.0
        self._scene = scene
        self._decode = action_decoder(self.env.action_space)

    @property
    def mujoco_renderer(self) -> Any:
        """Gymnasium's object that draws a MuJoCo model; None in other environments."""
        return getattr(self.env.unwrapped, "mujoco_renderer", None)

    def steps(self) -> Iterator[int]:
        """Resets, then takes each step; yields the number of steps taken."""
        self.env.reset(seed=self._scene.seed)
        yield 0
        for step, (action, recorded) in enumerate(zip(self._scene.act, self._scene.reward, strict=True), 1):
            reward = float(self.env.step(self._decode(action[None])[0])[1])
            self.drift = max(self.drift, abs(reward - recorded))
            yield step

    def pictures(self, every: int) -> Iterator[Picture]:
        """The start, and the state after each `every` steps."""
        for step in self.steps():
            if step % every == 0:
                yield self._picture()

    def _picture(self) -> Picture:
        picture = self.env.render()
        if not isinstance(picture, np.ndarray) or picture.dtype != np.uint8 or picture.shape[2:] != (3,):
            raise EnvError(f"render() gives no picture but {type(picture).__name__}; has it a mode rgb_array?")
        return np.ascontiguousarray(picture)


def _show(scene: Scene, tell_started: Callable[[], None]) -> None:
    replay = _Replay(scene, "human")
    _set_up_mujoco(replay, WINDOW_SIZE)
    for step in replay.steps():  # such an environment draws and keeps the time by itself
        if step == 0:
            _follow_in_window(replay)
            tell_started()
    replay.env.close()


def _film(scene: Scene, path: Path, max_fps: float, tell_started: Callable[[], None]) -> Film:
    replay = _Replay(scene, "rgb_array")
    _set_up_mujoco(replay, SIZE)
    true_fps = float(replay.env.metadata.get("render_fps") or _DEFAULT_FPS)
    every = math.ceil(true_fps / max_fps)
    count = len(scene.act) // every + 1
    kept: dict[int, Picture] = {}

    def pictures() -> Iterator[Picture]:
        shown = set(np.linspace(0, count - 1, _STRIP).astype(int).tolist())
        for number, picture in enumerate(replay.pictures(every)):
            if number == 0:
                tell_started()
            if number in shown:
                kept[number] = picture
            yield picture

    fps, still = true_fps / every, path.with_suffix(".png")
    write = _write_mp4 if path.suffix == ".mp4" else partial(_write_gif, durations=_durations(count, fps))
    write(path, pictures(), fps)
    _write_still(still, list(kept.values()))
    replay.env.close()
    backend = "" if replay.mujoco_renderer is None else os.environ["MUJOCO_GL"]
    return Film(path, still, backend, count, fps, replay.drift)


def _set_up_mujoco(replay: _Replay, size: tuple[int, int]) -> None:
    """Size, shadows and camera of MuJoCo's pictures, before the first one; what the environment was told stands."""
    renderer, told = replay.mujoco_renderer, replay.env_kwargs.keys()
    if renderer is None:
        return
    import mujoco

    renderer.model.vis.quality.shadowsize = _SHADOW_SIZE
    if not told & {"width", "height"}:
        renderer.width, renderer.height = size
    camera = mujoco.mj_name2id(renderer.model, mujoco.mjtObj.mjOBJ_CAMERA, _TRACKING_CAMERA)
    if camera >= 0 and not told & {"camera_id", "camera_name", "default_camera_config"}:
        renderer.camera_id = camera
        _draw_floor_without_end(renderer.model)


def _draw_floor_without_end(model: Any) -> None:
    """A plane collides everywhere but is drawn 20 to 40 m wide, which a robot leaves; its pattern stays as it is."""
    import mujoco

    for geom in np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE):
        size, material = model.geom_size[geom, :2], model.geom_matid[geom]
        if material >= 0 and not model.mat_texuniform[material] and size.all():
            model.mat_texrepeat[material] /= size
            model.mat_texuniform[material] = 1
        size[:] = 0.0  # means without end


def _follow_in_window(replay: _Replay) -> None:
    """Lets the window's camera go with the body that the model's own tracking camera is on."""
    renderer = replay.mujoco_renderer
    if renderer is None:
        return
    import mujoco

    camera = mujoco.mj_name2id(renderer.model, mujoco.mjtObj.mjOBJ_CAMERA, _TRACKING_CAMERA)
    if camera >= 0:
        renderer.viewer.cam.type = mujoco.mjtCamera.mjCAMERA_TRACKING
        renderer.viewer.cam.trackbodyid = renderer.model.cam_bodyid[camera]


def _write_mp4(path: Path, pictures: Iterator[Picture], fps: float) -> None:
    import imageio_ffmpeg

    first = next(pictures)
    height, width = first.shape[:2]
    writer = imageio_ffmpeg.write_frames(str(path), (width, height), fps=fps, macro_block_size=2)
    writer.send(None)
    for picture in chain((first,), pictures):
        writer.send(picture)
    writer.close()


def _write_gif(path: Path, pictures: Iterator[Picture], fps: float, *, durations: list[int]) -> None:
    """Every second pixel of every second row: GIF hardly compresses."""
    from PIL import Image

    images = (Image.fromarray(picture[::2, ::2].copy()).quantize(_COLOURS) for picture in pictures)
    next(images).save(path, save_all=True, append_images=images, duration=durations, loop=0)


def _durations(count: int, fps: float) -> list[int]:
    """Milliseconds of each picture, in whole hundredths of a second as GIF has them, that add up to the true time."""
    times = [10 * round(100 * number / fps) for number in range(count + 1)]
    return [later - earlier for earlier, later in pairwise(times)]


def _write_still(path: Path, pictures: list[Picture]) -> None:
    from PIL import Image

    Image.fromarray(np.concatenate([picture[::2, ::2] for picture in pictures], axis=1)).save(path)
