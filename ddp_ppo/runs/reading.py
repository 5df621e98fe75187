"""A finished or running run as its folder tells it: settings with origins, metrics, events, versions. Torch-free.

It only reads, and takes settings as text, so that a folder that another release has written can be looked at too.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ddp_ppo.config.sections import canonical
from ddp_ppo.config.settings import Config, ConfigError
from ddp_ppo.config.writing import dump_effective, read_effective
from ddp_ppo.config.yaml_text import RefusedError, to_yaml
from ddp_ppo.runs.metric_table import TABLE_FILE, MetricTable, read_table

BY_HAND = "edited by hand"  # the origin of a setting in a run folder that has none


class Given(NamedTuple):
    """One setting of a run: its value as YAML on one line, and where it came from."""

    value: str
    origin: str


Settings = Mapping[str, Given]


class NoRoundsError(ConfigError):
    """A run folder without a finished round."""


@dataclass(frozen=True)
class Run:
    """Everything that a run folder tells.

    Attributes:
        path: the folder.
        name: the configuration's name.
        settings: those of its last session.
        earlier: round -> settings in force until then, of a run that was resumed.
        columns: metrics by name, one number per round; NaN where there was nothing to report.
        table: what these metrics are; some may have no row.
        events: in the order in which they were written.
        versions: what it was made with; empty where the folder does not say.
        evaluated: rows of evaluation.csv, an episode each, which `ddp-ppo evaluate` leaves.
    """

    path: Path
    name: str
    settings: Settings
    earlier: Mapping[int, Settings]
    columns: Mapping[str, Sequence[float]]
    table: MetricTable
    events: Sequence[Mapping[str, Any]]
    versions: Mapping[str, str]
    evaluated: Sequence[Mapping[str, str]]

    def column(self, name: str) -> Sequence[float]:
        """A metric over the rounds, [num_rounds]; all NaN where the run does not have it."""
        return self.columns.get(name) or [math.nan] * self.num_rounds

    def known(self, name: str) -> list[tuple[int, float]]:
        """(index of the row, value) wherever a metric has a finite value."""
        return [(row, value) for row, value in enumerate(self.column(name)) if math.isfinite(value)]

    @property
    def num_rounds(self) -> int:
        """Rows of the metrics."""
        return len(self.columns["round"])

    @property
    def transitions_per_round(self) -> float:
        """Environment steps of the last round, all learners together."""
        steps = [0.0, *self.columns["env_steps"]]
        return steps[-1] - steps[-2]

    def setting(self, name: str) -> Any:
        """A setting's value, by any of its names; None where it is null or the run's release did not have it."""
        given = self.settings.get(canonical(name))
        return None if given is None else json.loads(given.value)

    @property
    def tasks(self) -> str:
        """The task that was trained on; several with commas between them."""
        return ", ".join(self.setting("env_ids") or [self.setting("env_id")])


def read_run(path: str | Path) -> Run:
    """Reads a run folder.

    Raises:
        ConfigError: one line: no such folder, a file, no run folder, or damaged.
        NoRoundsError: no round was finished in it.
    """
    folder = Path(path)
    if folder.is_file():
        raise ConfigError(f"{folder}: a file; report and compare take run folders, such as output/half_cheetah-first")
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder; name a run folder, such as output/half_cheetah-20260101-120000")
    if not (folder / "config.yaml").is_file():
        raise ConfigError(f"{folder}: not a run folder, it has no config.yaml")
    try:
        return _read(folder)
    except ConfigError:
        raise
    except (ValueError, csv.Error, RefusedError) as error:  # bytes that are no text, a cell that is no number, no JSON
        raise ConfigError(f"{folder}: a file in it is damaged: {error}") from error


def _read(folder: Path) -> Run:
    settings = read_settings((folder / "config.yaml").read_text())
    earlier = {
        int(file.stem.rpartition("_")[2]): read_settings(file.read_text())
        for file in folder.glob("config_until_round_*.yaml")
    }
    columns = _read_metrics(_metrics_file(folder, settings))
    if not columns.get("round"):
        raise NoRoundsError(f"{folder}: no round was finished in this run; there is nothing to show yet")
    versions_file = folder / "versions.json"
    return Run(
        path=folder,
        name=_name_of(folder),
        settings=settings,
        earlier=earlier,
        columns=columns,
        table=read_table(folder / TABLE_FILE),
        events=_read_events(folder / "events.jsonl"),
        versions=json.loads(versions_file.read_text()) if versions_file.exists() else {},
        evaluated=_read_evaluated(folder / "evaluation.csv"),
    )


def read_settings(text: str) -> dict[str, Given]:
    """What `dump_effective` has written, and what a hand has made of it, by the names of settings.

    Raises:
        RefusedError: it is no YAML of one mapping.
    """
    found = read_effective(text, "config.yaml")
    return {key: Given(to_yaml(value), origin or BY_HAND) for key, (value, origin) in found.items()}


def default_settings() -> dict[str, str]:
    """Every setting's default as text, as `read_settings` would read it."""
    return {key: given.value for key, given in read_settings(dump_effective(Config())).items()}


def _name_of(folder: Path) -> str:
    """The configuration's name, which a run leaves in its lock file; else the folder's without time or run name."""
    lock = folder / "lock"
    lines = lock.read_text().splitlines() if lock.exists() else []
    return lines[1] if len(lines) > 1 else folder.name.partition("-")[0]


def _metrics_file(folder: Path, settings: Settings) -> Path:
    """metrics_path counts from the folder where the run was started, which may not be the current one."""
    named = json.loads(settings["metrics_path"].value) if "metrics_path" in settings else None
    return folder / "metrics.csv" if named is None else Path(named)


def _read_metrics(path: Path) -> dict[str, list[float]]:
    """Columns of the whole rows; the last row of a run that was killed may have been cut off."""
    if not path.is_file():
        raise ConfigError(f"{path}: the metrics of this run are not here; start from the folder it was started in")
    names, rows = _read_csv(path)
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    return {name: [float(cell or "nan") for cell in column] for name, column in zip(names, columns, strict=True)}


def _read_csv(path: Path) -> tuple[list[str], list[list[str]]]:
    """Its header, and its rows that are whole."""
    with open(path, newline="") as file:
        reader = csv.reader(file)
        names = next(reader, [])
        return names, [row for row in reader if len(row) == len(names)]


def _read_evaluated(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    names, rows = _read_csv(path)
    return [dict(zip(names, row, strict=True)) for row in rows]


def _read_events(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    lines = path.read_text().split("\n")
    return [json.loads(line) for line in lines[:-1]]  # what follows the last line end is empty or was cut off
