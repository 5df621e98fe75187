"""`ddp-ppo play MODEL`: runs episodes and keeps what happened: a trajectory, a page with its curves, and a video.

The policy acts without noise on frozen statistics, in the environments that it was trained in: its episodes are those
of `evaluate`. They are drawn afterwards in Gymnasium's own class (see drawing); where nothing can be drawn the reason
is told and all the rest is there. With given actions it is a replay, compared with its recording and with what the
policy would have done.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ddp_ppo.config.settings import ConfigError
from ddp_ppo.envs.columns import describe_interface
from ddp_ppo.evaluation.drawing import Film, Scene
from ddp_ppo.evaluation.evaluate import evaluation_policy, own_seeds
from ddp_ppo.evaluation.play_page import episode_page
from ddp_ppo.evaluation.rendering import RenderError, film, show, video_ending
from ddp_ppo.evaluation.trajectory import Deviation, Trajectory, deviation, read_actions, record_block, recorded_env_id
from ddp_ppo.runs.model import Model, make_envs, run_folder_of, with_tasks
from ddp_ppo.runs.tensorboard import write_picture
from ddp_ppo.sampling.episodes import ENDLESS_STEPS, blocks_of


@dataclass(frozen=True)
class Wanted:
    """What to play.

    Attributes:
        num_episodes: exactly one where actions are given.
        seed: root of the episodes' seeds; None is that of the model's run, or the recording's own episode.
        num_steps: longer episodes are cut.
        max_fps: of the video; None is its format's limit.
        actions: file with actions to replay.
        is_live: show it in a window, where one opens, in place of a video.
    """

    num_episodes: int = 1
    seed: int | None = None
    num_steps: int = ENDLESS_STEPS
    max_fps: float | None = None
    actions: Path | None = None
    is_live: bool = False


@dataclass(frozen=True)
class Played:
    """One episode and what was made of it.

    Attributes:
        stem: path of its files without their endings: .npz the trajectory, .html its curves.
        deviation: from the recording; None where there was none.
        film: None where a window has shown it, or nothing could.
        notes: what was changed in given actions, what could not be drawn and why, and whether a video is not of this
            very episode.
    """

    trajectory: Trajectory
    stem: Path
    deviation: Deviation | None
    film: Film | None
    notes: tuple[str, ...]

    @property
    def summary(self) -> dict[str, Any]:
        """Plain values."""
        one = self.trajectory
        files = {"trajectory": self.file(".npz"), "curves": self.file(".html")}
        if self.film is not None:
            files |= {"video": self.film.path, "still": self.film.still}
        return {
            "seed": one.seed,
            "return": one.episode_return,
            "length": one.length,
            "end": one.end,
            "replay": self.deviation and {"is_equal": self.deviation.is_equal, "words": self.deviation.words},
            "files": {name: str(path) for name, path in files.items()},
            "notes": list(self.notes),
        }

    def file(self, ending: str) -> Path:
        """One of its files."""
        return self.stem.with_name(self.stem.name + ending)


def default_folder(model: Model) -> Path:
    """`play` in the model's run folder, else a folder beside the model file."""
    run = run_folder_of(model.path)
    return (
        run / "play" if (run / "config.yaml").exists() else model.path.absolute().with_name(f"{model.path.stem}_play")
    )


def task_folder(folder: Path, task: Model) -> Path:
    """That of one of several tasks, in the folder for all of them."""
    return folder / re.sub(r"[^\w.-]+", "_", task.env.env_id)


def tasks_of(model: Model, wanted: Wanted) -> list[Model]:
    """The model in each of its tasks alone; where a recording is replayed, in the one that it is of.

    Raises:
        ConfigError: the actions cannot be read.
    """
    tasks = with_tasks(model)[1:] or [model]
    env_id = None if wanted.actions is None else recorded_env_id(wanted.actions)
    return [task for task in tasks if task.env.env_id == env_id] or tasks


def play(
    model: Model, folder: Path, wanted: Wanted, *, say: Callable[[str], None] = lambda words: None
) -> Iterator[Played]:
    """Plays, writing to `folder`; yields each episode as it is done.

    Args:
        say: told of each video whose first picture is there, since the others take their time.

    Raises:
        ConfigError, CheckpointError, EnvError: actions that do not fit, a folder that cannot be made, an environment
            that cannot be built or fails.
    """
    given = None if wanted.actions is None else read_actions(wanted.actions, model.env)
    actions, recorded, changes = given or (None, None, ())
    if actions is not None and wanted.num_episodes != 1:
        raise ConfigError("--actions replays one episode; leave --episodes out")
    seeds = own_seeds(model, wanted.seed, wanted.num_episodes)
    if recorded is not None and wanted.seed is None:
        seeds = [recorded.seed]
    _make_folder(folder)
    interface = describe_interface(model.env_arguments)
    for number, one in enumerate(_recorded(model, seeds, wanted, actions), 1):
        stem = _stem(folder, number, wanted.actions)
        one.save(stem.with_name(f"{stem.name}.npz"))  # before anything is drawn, which takes its time
        found = None if recorded is None else deviation(one, recorded, interface.obs)
        scene = Scene(model.env_arguments, one.seed, model.env.action.from_own(one.act), one.reward)
        video, drawing_notes = _draw(scene, stem, wanted, say)
        notes = (*changes, *drawing_notes)
        played = Played(one, stem, found, video, notes)
        drawn = None if video is None else video.path
        html = episode_page(model.name, one, interface, model.env.action, deviation=found, film=drawn, notes=notes)
        played.file(".html").write_text(html, encoding="utf-8")
        if video is not None:
            _show_in_tensorboard(model, video)
        yield played


def _recorded(model: Model, seeds: list[int], wanted: Wanted, actions: NDArray[Any] | None) -> Iterator[Trajectory]:
    """Episodes, block by block; while one is drawn, no other instance of the environment is open."""
    policy = evaluation_policy(model)
    for block in blocks_of(seeds):
        with make_envs(model, len(block)) as env:
            recorded = record_block(env, policy, block, num_steps=wanted.num_steps, actions=actions)
        yield from recorded


def _stem(folder: Path, number: int, actions: Path | None) -> Path:
    """Of an episode's files; a replay has others than the recording, and never that of the actions that it reads."""
    if actions is None:
        return folder / f"episode_{number}"
    stems = (folder / f"replay_{n}" for n in count(number))
    read = actions.resolve()
    return next(stem for stem in stems if read not in [file.resolve() for file in folder.glob(f"{stem.name}.*")])


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--out: {folder} cannot be made: {error.strerror}") from None
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"--out: {folder} is not writable; choose another folder")


def _draw(scene: Scene, stem: Path, wanted: Wanted, say: Callable[[str], None]) -> tuple[Film | None, list[str]]:
    """Shows or films it, and says what could not be done."""
    for ending in (".mp4", ".gif", ".png"):  # of an earlier call: another episode
        stem.with_name(stem.name + ending).unlink(missing_ok=True)
    notes = []
    if wanted.is_live:
        try:
            show(scene)
            return None, []
        except (RenderError, OSError) as error:
            notes.append(f"no window: {error}")
    path = stem.with_name(stem.name + video_ending())
    words = f"drawing        {path}; takes up to a minute without a GPU"
    try:
        video = film(scene, path, max_fps=wanted.max_fps, tell_started=lambda: say(words))
    except (RenderError, OSError) as error:
        return None, [*notes, f"no video: {error}"]
    if video.drift:
        notes.append(f"the video's rewards differ by up to {video.drift:.3g}: a seed does not repeat this task")
    return video, notes


def _show_in_tensorboard(model: Model, video: Film) -> None:
    """The still, beside the curves of the model's run where there are some."""
    curves = run_folder_of(model.path) / "tensorboard"
    if curves.is_dir():
        step = int(model.info.get("env_steps", 0))
        write_picture(curves / "play", f"play/{video.still.stem}", video.still.read_bytes(), step)


def play_text(played: Played) -> str:
    """What a person should know of an episode."""
    one = played.trajectory
    ending = f"return {one.episode_return:.2f} in {one.length} steps, {one.end}"
    lines = [f"{played.stem.name:15}seed {one.seed}: {ending}"]
    if played.deviation is not None:
        lines.append(f"  replay       {played.deviation.words}")
    if played.film is not None:
        by = f", drawn by {played.film.backend.upper()}" if played.film.backend else ""
        about = f"{played.film.num_pictures} frames, {played.film.fps:g} per second{by}"
        lines.append(f"  video        {played.film.path} ({about})")
    lines += [f"  note         {note}" for note in played.notes]
    lines += [f"  curves       {played.file('.html')}", f"  trajectory   {played.file('.npz')}"]
    return "\n".join(lines)
