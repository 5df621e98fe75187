"""What TensorBoard shows of a run: its metrics as curves, a page that answers questions, settings, pictures.

The page is the tab Custom Scalars: does it learn, is it healthy, how is it scaled, where does time go, what
does it use. The settings fill the tab HParams, where runs are compared. NaN stands for "nothing to report", which is a
round without a point.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.plugins.custom_scalar.layout_pb2 import Category, Chart, Layout, MultilineChartContent
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionStartInfo
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from ddp_ppo.runs.metric_table import QUESTIONS, Metric, MetricTable, charts

_FLUSH_SECONDS = 5
_RETRY_SECONDS = 1.0
_ROOM = 2**16  # bytes that a disk must have free again before a new event file is tried
_FILES = frozenset({"output_dir", "run_name", "metrics_path", "resume"})  # differ without a difference


class TensorBoardLog:
    """Scalars over environment steps; a resumed run hides what an earlier one wrote beyond its checkpoint.

    A writer that has met an error, such as a full disk, takes nothing any more; a new one follows when there is room.
    """

    def __init__(
        self,
        folder: Path,
        table: MetricTable,
        *,
        after_step: int = 0,
        settings: Mapping[str, Any],
        reported: Iterable[str] = (),
    ) -> None:
        """Begins a file of events.

        Args:
            table: what the metrics are, for the page of charts.
            after_step: environment steps of the checkpoint that a resumed run goes on from.
            settings: of the run.
            reported: names of the metrics that a resumed run has points of.
        """
        self._folder = folder
        self._table = table
        self._writer = EventFileWriter(str(folder), flush_secs=_FLUSH_SECONDS)
        self._failed_at = math.inf  # when the writer last did; infinite as long as it works
        if after_step:
            self._writer.add_event(Event(step=after_step + 1, file_version="brain.Event:2", wall_time=time.time()))
            start = SessionLog(status=SessionLog.START)
            self._writer.add_event(Event(step=after_step + 1, session_log=start, wall_time=time.time()))
        self._names: set[str] = set()  # of the metrics that the page has charts for
        self._reported = {*reported}
        self._start = [session_start(settings)]  # written with the first row

    def write(self, row: Mapping[str, float], env_steps: int) -> None:
        """Adds one point for every scalar that has something to report."""
        values = {tag: value for tag, value in row.items() if not math.isnan(value)}
        self._reported |= values.keys()
        if self._reported != self._names:  # of several pages TensorBoard shows the last one
            names = {*self._reported}
            self._add_values(env_steps, [layout(self._table, names), *self._start])
            self._names, self._start = names, []
        self._add_values(env_steps, [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()])

    def write_text(self, tag: str, text: str, env_steps: int) -> None:
        """Adds a text, shown in TensorBoard's text tab."""
        metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
        tensor = TensorProto(dtype="DT_STRING", string_val=[text.encode()])
        self._add_values(env_steps, [Summary.Value(tag=tag, metadata=metadata, tensor=tensor)])

    def _add_values(self, env_steps: int, values: Sequence[Summary.Value]) -> None:
        self._add(Event(step=env_steps, summary=Summary(value=values), wall_time=time.time()))

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


def layout(table: MetricTable, names: Iterable[str]) -> Summary.Value:
    """The page of the questions, with those charts for which a run has scalars of these names."""
    categories = [
        Category(title=words, chart=[_chart(table, title, rows) for title, rows in found.items()])
        for key, words in QUESTIONS.items()
        if (found := charts(table, key, names))
    ]
    tensor = TensorProto(dtype="DT_STRING", string_val=[Layout(category=categories).SerializeToString()])
    return _value("custom_scalars__config__", "custom_scalars", tensor=tensor)


def _chart(table: MetricTable, title: str, rows: Iterable[tuple[Metric, str]]) -> Chart:
    tags = dict.fromkeys(_pattern(table, row) for row, _ in rows)
    return Chart(title=title, multiline=MultilineChartContent(tag=tags))


def _pattern(table: MetricTable, row: Metric) -> str:
    """The names of a row as a regular expression, without those that a row with a longer beginning takes."""
    if not row.is_prefix:
        return f"{re.escape(row.name)}$"
    others = [other.name.removeprefix(row.name) for other in table if other.name.startswith(row.name)]
    return re.escape(row.name) + "".join(f"(?!{re.escape(name)})" for name in others if name) + ".+$"


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
