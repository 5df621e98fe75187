"""What the process that draws does: it plays an episode again in Gymnasium's own class, which alone knows how to draw.

The episode is given by its seed and actions; whether the same rewards come out is measured. A window, or a video with
a still of some of its pictures. How that process is started and survived is in rendering. Torch-free.

Shapes: T steps of the episode, A action size; a picture is uint8 [height, width, 3].
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.envs.build import own_class_path
from ddp_ppo.envs.gymnasium_env import build_env
from ddp_ppo.envs.spaces import action_decoder
from ddp_ppo.errors import EnvError, text_of

if TYPE_CHECKING:
    from PIL.Image import Image

Picture = NDArray[np.uint8]
SIZE = (480, 320)  # of MuJoCo's pictures: width, height; not above the 480 x 480 that a model has room for
WINDOW_SIZE = (1200, 800)
MAX_FPS = {".mp4": 60.0, ".gif": 25.0}  # browsers play GIF frames of less than 20 ms ten times too slowly
_SHADOW_SIZE = 1024  # MuJoCo's 4096 takes more than half of the time where a CPU draws (42 instead of 103 ms)
_SAMPLES = 0  # of a pixel; MuJoCo's 4 take more than half of what is left (28 instead of 66 ms on a busy CPU)
_QUALITY = 4  # of 10: a minute of HalfCheetah is 1.7 MB, which a report has room for; imageio's 5 makes 2.9 MB
_COLOURS = 128  # of a GIF
_STILLS = (2, 3)  # pictures below each other and side by side in the still
_DEFAULT_FPS = 30.0  # of an environment that does not say
_TRACKING_CAMERA = "track"  # of Gymnasium's models; its own default camera lets the robot run out of the picture


@dataclass(frozen=True)
class Scene:
    """What is to be drawn.

    Attributes:
        env_arguments: keyword arguments of `envs.make_batch_env` but num_envs.
        act: [T, A] float32 within the bounds or [T] int64 from 0 on.
        reward: [T] that the actions brought when they were recorded.
    """

    env_arguments: Mapping[str, Any]
    seed: int
    act: NDArray[Any]
    reward: NDArray[np.float64]


class NoPictureError(EnvError):
    """The environment itself does not draw, whatever it would be drawn with."""


class Film(NamedTuple):
    """A video that was written.

    Attributes:
        path: .mp4 or .gif.
        still: a .png with some of its pictures, row by row.
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


class _Replay:
    """A scene in an environment that draws; `drift` is the largest difference of a reward so far."""

    def __init__(self, scene: Scene, mode: str) -> None:
        arguments = {"env_kwargs": {}, "backend": "auto", "max_episode_steps": None, **scene.env_arguments}
        own_class = own_class_path(arguments["env_id"], arguments["backend"])
        if own_class is not None:
            raise NoPictureError(f"{own_class} is not a Gymnasium environment; only those can be drawn")
        self.env_kwargs: Mapping[str, Any] = arguments["env_kwargs"]
        self.env = self._build(arguments["env_id"], mode, arguments["max_episode_steps"])
        self.drift = 0.0
        self._scene = scene
        self._decode = action_decoder(self.env.action_space, arguments.get("discretize_actions"))

    def _build(self, env_id: str, mode: str, max_episode_steps: int | None) -> Any:
        try:
            return build_env(env_id, {**self.env_kwargs, "render_mode": mode}, max_episode_steps)[0]
        except EnvError as error:
            if isinstance(error.__cause__, TypeError) and "render_mode" in str(error.__cause__):
                raise NoPictureError(f"{env_id} takes no render_mode, so nothing draws it") from None
            raise

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
        try:
            picture = self.env.render()
        except NotImplementedError as error:
            raise NoPictureError(
                text_of(error) or f"{type(self.env.unwrapped).__name__} has no render(), so nothing draws it"
            ) from None
        if not isinstance(picture, np.ndarray) or picture.dtype != np.uint8 or picture.shape[2:] != (3,):
            raise NoPictureError(f"render() gives no picture but {type(picture).__name__}; has it a mode rgb_array?")
        return np.ascontiguousarray(picture)


def show_scene(scene: Scene, tell_started: Callable[[], None]) -> None:
    """Shows it in a window, as fast as it was; says when the window is there."""
    replay = _Replay(scene, "human")
    if "human" not in replay.env.metadata.get("render_modes", ()):
        raise NoPictureError("the environment's metadata has no render mode human, so it opens none")
    _set_up_mujoco(replay, WINDOW_SIZE)
    for step in replay.steps():  # such an environment draws and keeps the time by itself
        if step == 0:
            _follow_in_window(replay)
            tell_started()
    replay.env.close()


def film_scene(scene: Scene, path: Path, max_fps: float | None, tell_started: Callable[[], None]) -> Film:
    """Writes a video with at most `max_fps` pictures a second; says when the first one is there."""
    replay = _Replay(scene, "rgb_array")
    _set_up_mujoco(replay, SIZE)
    true_fps = float(replay.env.metadata.get("render_fps") or _DEFAULT_FPS)
    every = math.ceil(true_fps / min(max_fps or math.inf, MAX_FPS[path.suffix]))
    count = len(scene.act) // every + 1
    kept: dict[int, Picture] = {}

    def pictures() -> Iterator[Picture]:
        shown = set(np.linspace(0, count - 1, math.prod(_STILLS)).astype(int).tolist())
        for number, picture in enumerate(replay.pictures(every)):
            if number == 0:
                tell_started()
            if number in shown:
                kept[number] = picture
            yield picture

    fps, still = true_fps / every, path.with_suffix(".png")
    write = _write_mp4 if path.suffix == ".mp4" else partial(_write_gif, durations=frame_durations(count, fps))
    write(path, pictures(), fps)
    _write_still(still, list(kept.values()))
    replay.env.close()
    backend = "" if replay.mujoco_renderer is None else os.environ["MUJOCO_GL"]
    return Film(path, still, backend, count, fps, replay.drift)


def _set_up_mujoco(replay: _Replay, size: tuple[int, int]) -> None:
    """Size, quality and camera of MuJoCo's pictures, before the first one; what the environment was told stands."""
    renderer, told = replay.mujoco_renderer, replay.env_kwargs.keys()
    if renderer is None:
        return
    import mujoco

    renderer.model.vis.quality.shadowsize = _SHADOW_SIZE
    renderer.model.vis.quality.offsamples = _SAMPLES
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
    writer = imageio_ffmpeg.write_frames(str(path), (width, height), fps=fps, quality=_QUALITY, macro_block_size=2)
    writer.send(None)
    for picture in chain((first,), pictures):
        writer.send(picture)
    writer.close()


def _write_gif(path: Path, pictures: Iterator[Picture], fps: float, *, durations: list[int]) -> None:
    """At half size: GIF hardly compresses."""
    images = (_half(picture).quantize(_COLOURS) for picture in pictures)
    next(images).save(path, save_all=True, append_images=images, duration=durations, loop=0)


def frame_durations(count: int, fps: float) -> list[int]:
    """Milliseconds of each picture, in whole hundredths of a second as GIF has them, that add up to the true time."""
    times = [10 * round(100 * number / fps) for number in range(count + 1)]
    return [later - earlier for earlier, later in pairwise(times)]


def _write_still(path: Path, pictures: list[Picture]) -> None:
    """Rows of pictures at half size; what is missing in the last row is white."""
    from PIL.Image import fromarray

    small, columns = [np.asarray(_half(picture)) for picture in pictures], _STILLS[1]
    if len(small) > columns:
        small += [np.full_like(small[0], 255)] * (-len(small) % columns)
    rows = [np.concatenate(small[start : start + columns], axis=1) for start in range(0, len(small), columns)]
    fromarray(np.concatenate(rows)).save(path)


def _half(picture: Picture) -> Image:
    from PIL.Image import fromarray

    return fromarray(picture).reduce(2)
