"""Everything that rank 0 writes down: CSV, TensorBoard, console, events, models and checkpoints.

A file that cannot be written in mid-run (disk full, read-only) costs a warning and not the run. Other ranks have a
`FaultRecorder`.
"""

from __future__ import annotations

import filecmp
import math
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict
from functools import partial
from itertools import count
from pathlib import Path
from shlex import quote
from typing import Any

from ddp_ppo.config.settings import Config, ConfigError
from ddp_ppo.config.writing import save_effective
from ddp_ppo.envs.standard import own_standard
from ddp_ppo.protocols import Arrays, PlainState
from ddp_ppo.report.report import report_or_warn
from ddp_ppo.runs.anomalies import Anomaly, Watch
from ddp_ppo.runs.checkpoint import checkpoints_after, save_checkpoint
from ddp_ppo.runs.console import Console, progress_line
from ddp_ppo.runs.csv_log import CsvLog
from ddp_ppo.runs.events import EventLog
from ddp_ppo.runs.evidence import save_evidence
from ddp_ppo.runs.files import CheckpointError, copy_atomically
from ddp_ppo.runs.folder import RunFolder, home_of
from ddp_ppo.runs.metric_table import EPISODES, METRICS, SCORE, TABLE_FILE, TRAINING_RETURN, save_table
from ddp_ppo.runs.model import load_model, save_model
from ddp_ppo.runs.tensorboard import TensorBoardLog
from ddp_ppo.runs.versions import save_versions
from ddp_ppo.training.plan import Plan
from ddp_ppo.training.resumed_settings import settings_content
from ddp_ppo.training.sampler import Frozen


class FaultRecorder:
    """What every rank but the first has: it writes down faults alone, in rank 0's folder where this node has it."""

    path: Path | None = None  # of the run folder, for the rank that speaks of it

    def __init__(self, plan: Plan, console: Console) -> None:
        self.console = console
        self._plan = plan
        self._stack = ExitStack()
        self.unwritten: dict[Path, str] = {}  # what could not be written the last time, and why
        self._home: Path | None = None
        self._events: EventLog | None = None

    def __enter__(self) -> FaultRecorder:
        return self

    def __exit__(self, *error: object) -> None:
        """Closes the files."""
        self._stack.close()

    def join(self, folder: Path) -> None:
        """Writes faults to this run folder from now on.

        Raises:
            ConfigError: its events.jsonl cannot be opened.
        """
        if self._home is None and folder.is_dir():
            self._home = folder
            path = folder / "events.jsonl"
            try:
                self._events = EventLog(path, self._plan.topology.rank)
            except OSError as error:
                raise ConfigError(f"{path} cannot be opened: {error.strerror}") from None
            self._stack.callback(self._events.close)

    def open_logs(self, round_index: int, env_steps: int) -> None:
        """Opens the logs to go on after this round."""

    def event(self, kind: str, round_index: int, what: str, *, is_shown: bool = True) -> None:
        """Notes an event and shows it, unless the run's last words will."""
        if is_shown:
            self.console.say(f"note: {what}")
        if self._events is not None:
            self._write(self._events.path, partial(self._events.write, kind, round_index, what=what))

    def evidence(self, state: PlainState, slices: Arrays, where: dict[str, Any], round_index: int) -> None:
        """What a value that is not finite can be replayed from."""
        if self._home is None:
            return
        path = self._home / f"evidence_{round_index + 1:07d}_rank_{self._plan.topology.rank}.pt"
        save = partial(save_evidence, path, env=self._plan.env, env_arguments=self._plan.config.env_arguments)
        self._write(path, partial(save, state=state, slices=slices, where=where))
        command = f"ddp-ppo replay {quote(str(path))}"
        self.console.say(f"note: the last states and actions are in {path}; see them again with: {command}")

    def say(self, text: str) -> None:
        """A line for the person who watches."""

    def row(self, row: Mapping[str, float], *, seconds_left: float, is_last: bool) -> None:
        """One round."""

    def anomaly(self, anomaly: Anomaly, round_index: int, env_steps: int) -> None:
        """Something that a person should look at, in every place where they may be looking."""

    def best_return(self, saved: float) -> float:
        """The return of the best model on the disk, where a checkpoint says `saved`."""
        return saved

    def model(self, now: Frozen, about: dict[str, Any], *, is_best: bool) -> bool:
        """The policy as it is now, or was at its best; whether it could be written."""
        return False

    def checkpoint(self, round_index: int, content: dict[str, Any]) -> None:
        """Everything to go on from."""

    def _write(self, path: Path, write: Callable[[], object]) -> bool:
        """Writes, or warns once and lets the run go on; what was written before stays as it is."""
        try:
            write()
            self.unwritten.pop(path, None)
            return True
        except OSError as error:
            if path not in self.unwritten:
                self.unwritten[path] = reason = error.strerror or str(error)
                rest = "" if isinstance(error, FileNotFoundError) else ", what was written before is intact"
                self.console.say(f"warning: cannot write {path}: {reason}; the run goes on{rest}")
            return False


class Recorder(FaultRecorder):
    """Rank 0's."""

    def __init__(self, plan: Plan, console: Console) -> None:
        super().__init__(plan, console)
        self._folder = self._stack.enter_context(_open_folder(plan))
        self.path = self._folder.path
        try:
            self.join(self.path)
        except ConfigError:
            self._stack.close()
            raise
        self._table = (*METRICS, *plan.kind.metrics)
        self._watch = Watch(time_limit=plan.env.max_episode_steps, standard=_standard(plan.config))
        self._recent_return = math.nan

    def open_logs(self, round_index: int, env_steps: int) -> None:
        effective = self._folder.path / "config.yaml"
        try:
            self._keep_later(round_index)
            if effective.exists():
                effective.rename(self._folder.path / f"config_until_round_{round_index}.yaml")
            save_effective(self._plan.config, effective)
            save_versions(self._folder.path / "versions.json", self._plan.in_force)
            save_table(self._folder.path / TABLE_FILE, self._table)
            self._stack.callback(report_or_warn, self._folder.path, self.say)  # when the files below are closed
            self._csv = CsvLog(self._folder.metrics, after_round=round_index)
            self._stack.callback(self._csv.close)
            self._tensorboard = TensorBoardLog(
                self._folder.tensorboard,
                self._table,
                after_step=env_steps,
                settings=self._plan.config.values(),
                reported=self._csv.reported,
            )
            self._stack.callback(lambda: self._write(self._folder.tensorboard, self._tensorboard.close))
        except OSError as error:
            raise ConfigError(
                f"the run's files cannot be opened: {error.strerror}: {error.filename or self.path}"
            ) from None

    def say(self, text: str) -> None:
        self.console.say(text)

    def row(self, row: Mapping[str, float], *, seconds_left: float, is_last: bool) -> None:
        round_index, env_steps = int(row["round"]), int(row["env_steps"])
        self._write(self._folder.metrics, lambda: self._csv.write(row))
        self._write(self._folder.tensorboard, lambda: self._tensorboard.write(row, env_steps))
        for anomaly in self._watch.update(row):
            self.anomaly(anomaly, round_index, env_steps)
        if row[EPISODES]:
            self._recent_return = row[TRAINING_RETURN]
        line = progress_line(
            row,
            self._table,
            num_rounds=self._plan.num_rounds,
            recent_return=self._recent_return,
            seconds_left=seconds_left,
        )
        self.console.progress(line, keep=is_last or not math.isnan(row[SCORE]))
        if is_last and math.isnan(self._recent_return):
            limit = self._plan.env.max_episode_steps
            advice = f"their time limit is {limit:,} steps" if limit else "max_episode_steps would set a time limit"
            self.say(f"note: no episode has ended in this training; {advice}")

    def anomaly(self, anomaly: Anomaly, round_index: int, env_steps: int) -> None:
        assert self._events is not None
        self._write(self._events.path, partial(self._events.write, "anomaly", round_index, **anomaly._asdict()))
        text = (f"anomaly/{anomaly.rule}", f"{anomaly.seen}: {anomaly.advice}", env_steps)
        self._write(self._folder.tensorboard, partial(self._tensorboard.write_text, *text))
        self.say(f"look: round {round_index}: {anomaly.rule}: {anomaly.seen} (check {anomaly.advice})")

    def model(self, now: Frozen, about: dict[str, Any], *, is_best: bool) -> bool:
        plan, folder = self._plan, self._folder
        state = now.obs_rms_state if plan.config.normalize_obs else None
        about = {**_about(plan.config), **about}
        best, newest = (folder.best_model, folder.latest_best_model), (folder.model, folder.latest_model)
        path, latest = best if is_best else newest
        save = partial(save_model, path, plan.network, plan.env, now.parameters, state, about)
        if not self._write(path, save):
            return False
        if is_best:
            self._write(latest, partial(self._keep_better, latest, float(about["eval_return"])))
        return self._write(latest, partial(copy_atomically, path, latest))

    def best_return(self, saved: float) -> float:
        path, found = self._folder.best_model, math.nan
        with suppress(CheckpointError):
            found = float(load_model(path).info.get("eval_return", math.nan))
        if found > saved or (math.isnan(saved) and not math.isnan(found)):
            self.say(f"note: {path} ({found:.1f}) is better than any of the checkpoint's: it stays until one is better")
        elif math.isnan(found) and not math.isnan(saved):
            self.say(f"note: {path} is not there: the next evaluation gives the best model")
        return found

    def _keep_later(self, round_index: int) -> None:
        """Keeps what a run leaves behind that goes on from an older checkpoint."""
        if left := checkpoints_after(self._folder.checkpoints, round_index):
            aside = self._folder.set_aside(left)
            self.say(
                f"note: checkpoints of later rounds are kept in {aside}, with copies of the models and metrics of that "
                f"time; resume={quote(str(aside))} would go on from there"
            )

    def _keep_better(self, latest: Path, eval_return: float) -> None:
        """Gives another run's model a name of its own before a worse one replaces the last copy of it."""
        try:
            found = float(load_model(latest).info.get("eval_return", math.nan))
        except CheckpointError:
            return
        copies = (one for one in latest.parent.glob("*/model_best.pt") if one != self._folder.best_model)
        if found > eval_return and not any(filecmp.cmp(latest, one, shallow=False) for one in copies):
            names = (latest.with_name(f"{latest.stem}_{number}.pt") for number in count(1))
            kept = next(path for path in names if not path.exists())
            latest.rename(kept)
            self.say(f"note: {latest} of another run was better ({found:.1f}): it is kept as {kept}")

    def checkpoint(self, round_index: int, content: dict[str, Any]) -> None:
        plan = self._plan
        of_run = {"network": asdict(plan.network), "env": asdict(plan.env), "settings": settings_content(plan.config)}
        content = {**of_run, **_about(plan.config), "metrics_first": self._csv.first, **content}
        keep = plan.config.keep_checkpoints
        folder = self._folder.checkpoints
        self._write(self._folder.tensorboard, self._tensorboard.flush)
        self._write(folder, lambda: save_checkpoint(folder, round_index, content, keep))


def _about(config: Config) -> dict[str, Any]:
    """What a model or checkpoint says of the run that it is from."""
    names = ("learner", "seed", "eval_episodes", "solved_return", "policy_backend")
    settings = {name: getattr(config, name) for name in names}
    return {"config": config.name, **settings, "env_arguments": config.env_arguments}


def _standard(config: Config) -> float | None:
    """The return from which the task counts as solved: the setting, else the task's own."""
    return own_standard(config.tasks) if config.solved_return is None else config.solved_return


def _open_folder(plan: Plan) -> RunFolder:
    home = home_of(plan.resumed.path) if plan.resumed is not None else None
    return RunFolder.create(plan.config) if home is None else RunFolder(home, plan.config)
