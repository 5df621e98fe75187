"""What TensorBoard shows of a run: its metrics as curves, a page that answers three questions, settings, pictures.

The page is the tab Custom Scalars: does it learn, is it healthy, where does time go. The settings fill the tab HParams,
where runs are compared. NaN stands for "nothing to report", which is a round without a point.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.plugins.custom_scalar.layout_pb2 import Category, Chart, Layout, MultilineChartContent
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionStartInfo
from tensorboard.summary.writer.event_file_writer import EventFileWriter

STAGES = {  # of a round, in the names of time/*_seconds; idle time is a part of sampling
    "sample": "sampling",
    "annotate": "values and advantages",
    "transfer": "moving to the device",
    "train": "gradient steps",
    "sync": "between learners",
    "record": "evaluation and files",
}
_FLUSH_SECONDS = 5
_RETRY_SECONDS = 1.0
_ROOM = 2**16  # bytes that a disk must have free again before a new event file is tried
_FILES = frozenset({"output_dir", "run_name", "metrics_path", "resume"})  # differ without a difference
# Question -> chart -> the scalars in it, as regular expressions of their whole names.
QUESTIONS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "Does it learn?": {
        "Return of evaluations": ("eval/return_mean",),
        "Return of training episodes": ("rollout/episode_return_mean",),
        "Parts of the reward": ("reward/.*",),
        "Length of training episodes": ("rollout/episode_length_mean",),
        "Share of episodes that the task itself ended": ("rollout/terminated_fraction",),
    },
    "Is it healthy?": {
        "KL divergence of a round": ("train/approx_kl",),
        "Share of samples outside the clip range": ("train/clip_fraction",),
        "Explained variance of the critic": ("train/explained_variance",),
        "Loss of the learner": ("train/loss",),
        "Value loss": ("train/value_loss",),
        "TD error": ("train/td_error",),
        "Entropy": ("train/entropy",),
        "Gradient norm before clipping": ("train/grad_norm",),
        "Learning rate": ("train/learning_rate",),
    },
    "Where does time go?": {
        "Steps per second": ("time/steps_per_second",),
        **{f"{words.capitalize()}, seconds of a round": (f"time/{name}_seconds",) for name, words in STAGES.items()},
        "Waiting for the slowest actor, seconds of a round": ("time/idle_seconds",),
    },
}


class TensorBoardLog:
    """Scalars over environment steps; a resumed run hides what an earlier one wrote beyond its checkpoint.

    A writer that has met an error, such as a full disk, takes nothing any more; a new one follows when there is room.
    """

    def __init__(self, folder: Path, *, after_step: int, settings: Mapping[str, Any]) -> None:
        self._folder = folder
        self._writer = EventFileWriter(str(folder), flush_secs=_FLUSH_SECONDS)
        self._failed_at = math.inf  # when the writer last did; infinite as long as it works
        if after_step:
            self._writer.add_event(Event(step=after_step + 1, file_version="brain.Event:2", wall_time=time.time()))
            start = SessionLog(status=SessionLog.START)
            self._writer.add_event(Event(step=after_step + 1, session_log=start, wall_time=time.time()))
        self._pages = [session_start(settings)]  # written with the first row, which tells what there is to show

    def write(self, row: Mapping[str, float], env_steps: int) -> None:
        """Adds one point for every scalar that has something to report."""
        if self._pages:
            pages = Summary(value=[layout(row), *self._pages])
            self._add(Event(step=env_steps, summary=pages, wall_time=time.time()))
            self._pages = []
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in row.items() if not math.isnan(value)]
        self._add(Event(step=env_steps, summary=Summary(value=values), wall_time=time.time()))

    def write_text(self, tag: str, text: str, env_steps: int) -> None:
        """Adds a text, shown in TensorBoard's text tab."""
        metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
        tensor = TensorProto(dtype="DT_STRING", string_val=[text.encode()])
        value = Summary.Value(tag=tag, metadata=metadata, tensor=tensor)
        self._add(Event(step=env_steps, summary=Summary(value=[value]), wall_time=time.time()))

    def _add(self, event: Event) -> None:
        try:
            if time.monotonic() > self._failed_at + _RETRY_SECONDS and shutil.disk_usage(self._folder).free > _ROOM:
                self._writer = EventFileWriter(str(self._folder), flush_secs=_FLUSH_SECONDS)
                self._failed_at = math.inf
            self._writer.add_event(event)
        except OSError:
            self._failed_at = time.monotonic() if math.isinf(self._failed_at) else self._failed_at
            raise

    def flush(self) -> None:
        """Puts everything on disk."""
        self._writer.flush()

    def close(self) -> None:
        """Flushes and closes the file."""
        self._writer.close()


def layout(names: Iterable[str]) -> Summary.Value:
    """The page of the three questions, with those charts for which a run has scalars of these names."""
    known = [*names]

    def has_any(tags: tuple[str, ...]) -> bool:
        return any(re.fullmatch(tag, name) for tag in tags for name in known)

    categories = [
        Category(title=question, chart=[_chart(title, tags) for title, tags in charts.items() if has_any(tags)])
        for question, charts in QUESTIONS.items()
    ]
    tensor = TensorProto(dtype="DT_STRING", string_val=[Layout(category=categories).SerializeToString()])
    return _value("custom_scalars__config__", "custom_scalars", tensor=tensor)


def _chart(title: str, tags: tuple[str, ...]) -> Chart:
    return Chart(title=title, multiline=MultilineChartContent(tag=[f"{tag}$" for tag in tags]))


def session_start(settings: Mapping[str, Any]) -> Summary.Value:
    """A run's row in the table of runs, whose first columns are the settings that differ between them.

    Without a list of columns of its own TensorBoard finds out by itself which settings differ.
    """
    start = SessionStartInfo(start_time_secs=time.time())
    for name, value in settings.items():
        if name in _FILES:
            continue
        if isinstance(value, bool):
            start.hparams[name].bool_value = value
        elif isinstance(value, int | float):
            start.hparams[name].number_value = value
        else:
            start.hparams[name].string_value = value if isinstance(value, str) else json.dumps(value)
    content = HParamsPluginData(version=0, session_start_info=start).SerializeToString()
    return _value("_hparams_/session_start_info", "hparams", content, tensor=TensorProto(dtype="DT_FLOAT"))


def _value(tag: str, plugin: str, content: bytes = b"", **data: Any) -> Summary.Value:
    metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=plugin, content=content))
    return Summary.Value(tag=tag, metadata=metadata, **data)


def write_picture(folder: Path, tag: str, png: bytes, step: int) -> None:
    """Writes a picture to a TensorBoard folder of its own, so that a run that still writes is not disturbed.

    Args:
        png: a PNG file's content.
    """
    width, height = (int.from_bytes(png[start : start + 4], "big") for start in (16, 20))
    image = Summary.Image(encoded_image_string=png, width=width, height=height, colorspace=3)
    writer = EventFileWriter(str(folder))
    summary = Summary(value=[Summary.Value(tag=tag, image=image)])
    writer.add_event(Event(step=step, wall_time=time.time(), summary=summary))
    writer.close()
