"""Where a run keeps its files: one folder of its own, locked while the run lives, as is a metrics file elsewhere.

output_dir/<config>-<time or name>/  config.yaml  metrics.csv  tensorboard/  checkpoints/  model.pt  model_best.pt
output_dir/model_<config>.pt and model_<config>_best.pt are copies of the latest run's models.
"""

from __future__ import annotations

import fcntl
import glob
import os
import shutil
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path

from ddp_ppo.config.packaged import LOCK_FILE, name_of_run
from ddp_ppo.config.settings import Config, ConfigError


class RunFolder:
    """The folder of one run; holds its lock until it is left as a context, and no longer than its process lives."""

    def __init__(self, path: Path, config: Config) -> None:
        """Takes the locks of an existing folder and of the metrics file that the setting names.

        Raises:
            ConfigError: another run is alive in it or writes that file, or they cannot be written.
        """
        path = self.path = path.absolute()
        self.checkpoints = path / "checkpoints"
        self.tensorboard = path / "tensorboard"
        self.metrics = Path(config.metrics_path or path / "metrics.csv").absolute()
        self.model, self.best_model = path / "model.pt", path / "model_best.pt"
        with ExitStack() as stack:
            if config.metrics_path:
                stack.callback(os.close, _lock_metrics(self.metrics))
            try:
                lock = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
                stack.callback(os.close, lock)
                take_lock(lock, f"{path}: another run is alive in this folder; stop it or choose another run_name")
                for left in path.rglob(".*.tmp"):  # of a run that was killed while it wrote; it is gone, says the lock
                    left.unlink()
                name = name_of_run(path) or config.name  # a folder keeps its name, whoever resumes its run
                mark = f"\n{name}\n".encode()
                os.pwrite(lock, mark, 0)
                os.ftruncate(lock, len(mark))
            except OSError as error:
                raise ConfigError(f"{path}: this run folder cannot be written: {error.strerror}") from None
            self._locks = stack.pop_all()
        self.latest_model = path.parent / f"model_{name}.pt"
        self.latest_best_model = path.parent / f"model_{name}_best.pt"

    @classmethod
    def create(cls, config: Config) -> RunFolder:
        """A new folder: an existing one is never written over, the new name gets a number instead.

        Raises:
            ConfigError: the folder cannot be made, or the metrics file that the setting names.
        """
        if config.metrics_path:
            os.close(_lock_metrics(Path(config.metrics_path)))  # before there is a folder
        output = Path(config.output_dir)
        name = f"{config.name}-{config.run_name or time.strftime('%Y%m%d-%H%M%S')}"
        for attempt in range(1, 1000):
            path = output / (name if attempt == 1 else f"{name}-{attempt}")
            try:
                path.mkdir(parents=True)
            except FileExistsError:
                continue
            except OSError as error:
                raise ConfigError(f"output_dir: cannot create {path}: {error.strerror}") from None
            return cls(path, config)
        raise ConfigError(f"output_dir: {output / name} exists 999 times already; choose another run_name")

    def set_aside(self, left: Sequence[Path]) -> Path:
        """Moves checkpoints that a run leaves behind to a folder, with copies of its files of that time; returns it.

        Args:
            left: newest first; at least one.
        """
        name = f"until_round_{int(left[0].stem.rpartition('_')[2])}"
        names = (name if number == 1 else f"{name}-{number}" for number in count(1))
        aside = next(place for one in names if not (place := self.path / one).exists())
        (aside / "checkpoints").mkdir(parents=True)
        for file in (self.model, self.best_model, self.metrics, self.path / "config.yaml"):
            if file.exists():
                shutil.copy2(file, aside / (file.name if file != self.metrics else "metrics.csv"))
        for checkpoint in left:
            checkpoint.rename(aside / "checkpoints" / checkpoint.name)
        return aside

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *error: object) -> None:
        self._locks.close()


def take_lock(descriptor: int, is_taken: str) -> None:
    """Locks an open file against other runs until it is closed.

    Raises:
        ConfigError: with these words, where another run has it, or its file system cannot lock files.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConfigError(is_taken) from None
    except OSError as error:
        place = is_taken.partition(":")[0]
        raise ConfigError(
            f"{place}: its file system cannot lock files ({error.strerror}); choose another output_dir or metrics_path"
        ) from None


def require_writable(config: Config) -> None:
    """Finds out, without creating anything, whether the output and metrics paths can be written.

    Raises:
        ConfigError: a part of the path is a file or a link to nothing, or the nearest existing folder is not writable.
    """
    places = {"output_dir": Path(config.output_dir)}
    if config.metrics_path:
        places["metrics_path"] = Path(config.metrics_path).parent
        metrics = Path(config.metrics_path)
        if metrics.is_dir():
            raise ConfigError(f"metrics_path: {metrics} is a folder; name a file")
        if metrics.is_symlink() or (metrics.exists() and not metrics.is_file()):
            raise ConfigError(f"metrics_path: {metrics} is a link or a device and would be replaced; name a file")
    for key, place in places.items():
        existing = place.absolute()
        while not existing.exists():
            if existing.is_symlink():
                target = os.readlink(existing)
                raise ConfigError(f"{key}: {existing} is a link to {target}, which does not exist; mend or remove it")
            existing = existing.parent
        if not existing.is_dir():
            raise ConfigError(f"{key}: {existing} is a file, so {place} cannot be a folder; choose another path")
        if not os.access(existing, os.W_OK | os.X_OK):
            raise ConfigError(f"{key}: {existing} is not writable; choose another path")


def _lock_metrics(path: Path) -> int:
    """The lock of a metrics file, made where it is missing; what it holds stays as it is."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise ConfigError(f"metrics_path: cannot write {path}: {error.strerror}") from None
    try:
        take_lock(descriptor, f"{path}: another run writes its metrics there; choose another metrics_path")
    except ConfigError:
        os.close(descriptor)
        raise
    return descriptor


def home_of(checkpoint: Path) -> Path | None:
    """The run folder that a checkpoint lies in; None for a file that was copied elsewhere."""
    folder = checkpoint.parent.parent
    return folder if checkpoint.parent.name == "checkpoints" and (folder / LOCK_FILE).exists() else None


def latest_runs(config: Config) -> list[Path]:
    """The folders of this configuration's (and run_name's) runs that have a checkpoint, that with the newest first."""
    name = config.name if config.run_name is None else f"{config.name}-{config.run_name}"
    folders = [path for path in Path(config.output_dir).glob(f"{glob.escape(name)}*") if _belongs(path, config)]
    return sorted((path for path in folders if _newest_checkpoint(path)), key=_newest_checkpoint, reverse=True)


def _newest_checkpoint(folder: Path) -> int:
    """When it was written, in ns; 0 without one."""
    times = [0]
    for checkpoint in folder.glob("checkpoints/checkpoint_*.pt"):
        with suppress(FileNotFoundError):  # a run that is alive removes its old ones
            times.append(checkpoint.stat().st_mtime_ns)
    return max(times)


def _belongs(path: Path, config: Config) -> bool:
    """Whether <config>-<time or name>[-<number>] is a folder of this configuration, not of one whose name is longer."""
    if name_of_run(path) not in (None, config.name):
        return False
    folder = path.name
    rest = folder.removeprefix(f"{config.name}-")
    if config.run_name is not None:
        rest = rest.removeprefix(config.run_name)
        return rest == "" or rest.removeprefix("-").isdigit()
    return rest != folder
