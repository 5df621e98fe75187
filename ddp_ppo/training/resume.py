"""Where a run stands after its complete rounds, what a checkpoint holds of it, and how a run goes on from one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ddp_ppo.config.settings import Config
from ddp_ppo.distributed.group import folder_of_launch
from ddp_ppo.learners.interface import Learner, LearnerJob
from ddp_ppo.learners.registry import learner_kind
from ddp_ppo.learners.starting_point import StartingPoint
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.runs.agreement import agreed_learner
from ddp_ppo.runs.checkpoint import find_checkpoint, network_of
from ddp_ppo.runs.csv_log import log_notes
from ddp_ppo.runs.files import CheckpointError
from ddp_ppo.runs.folder import home_of, latest_runs
from ddp_ppo.sampling.actor_pool import ActorPool
from ddp_ppo.training.actor_states import states_for
from ddp_ppo.training.resumed_settings import EPISODES, RATE, SHAPE, continued
from ddp_ppo.training.sync import Statistics


class Resumed(NamedTuple):
    """The checkpoint that a run goes on from, and the settings that have another value than when it was written."""

    path: Path
    content: dict[str, Any]
    changed: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class RunState:
    """All that a run goes on from; `own` differs from rank to rank, the rest is the same on all.

    Attributes:
        round, env_steps, elapsed_seconds: done so far.
        statistics: the global history of observations and returns.
        best_return, eval_return: best and last mean evaluation return; NaN without one.
        sync: whether learners differ, see `Sync.state_dict`.
        own: this rank's learner and where its actors' environments stand.
    """

    round: int
    env_steps: int
    elapsed_seconds: float
    statistics: Statistics
    best_return: float
    eval_return: float
    sync: Mapping[str, Any] = field(default_factory=dict)
    own: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def first(start: StartingPoint) -> RunState:
        """Before any round."""
        return RunState(
            round=0,
            env_steps=0,
            elapsed_seconds=0.0,
            statistics=Statistics(start.obs_rms_state, start.return_rms_state),
            best_return=math.nan,
            eval_return=math.nan,
        )

    @staticmethod
    def of(content: Mapping[str, Any]) -> RunState:
        """What a checkpoint's content says of all ranks."""
        names = ("round", "env_steps", "elapsed_seconds", "best_return", "eval_return")
        statistics = Statistics(content["obs_rms_state"], content["return_rms_state"])
        return RunState(**{name: content[name] for name in names}, statistics=statistics)

    @property
    def is_apart(self) -> bool:
        """Whether learners differ."""
        return bool(self.sync["rounds_apart"])

    def content(self, ranks: Sequence[Mapping[str, Any]], agreed: Mapping[str, Any] | None) -> dict[str, Any]:
        """A checkpoint but for the round, which is its name.

        Args:
            ranks: every rank's `own`.
            agreed: the state of a learner on which all agree; None where they are equal.
        """
        return {
            "env_steps": self.env_steps,
            "elapsed_seconds": self.elapsed_seconds,
            "obs_rms_state": self.statistics.obs,
            "return_rms_state": self.statistics.returns,
            "best_return": self.best_return,
            "eval_return": self.eval_return,
            "sync": dict(self.sync),
            "ranks": list(ranks),
            **({} if agreed is None else {"agreed": agreed}),
        }


class Found(NamedTuple):
    """Where a run begins: its configuration, the checkpoint (None for a new run), and what a person should know."""

    config: Config
    resumed: Resumed | None = None
    notes: tuple[str, ...] = ()


def find_resumed(config: Config, environ: Mapping[str, str]) -> Found:
    """The checkpoint that a run goes on from, and the settings that it goes on with.

    Raises:
        CheckpointError: there is none where one is asked for, or a setting is changed that a run cannot change.
    """
    places = _places(config, environ)
    if places is None:
        return Found(config)
    if not places:
        words = f"resume=auto: no checkpoint of {config.name} in {config.output_dir}, a new run starts"
        return Found(config, notes=(words,))
    path, content, skipped = find_checkpoint(*places)
    settings = continued(config, path, content)
    notes = (*skipped, *settings.notes, *_place_notes(settings.config, path, content))
    words = f"resuming from {path} after round {content['round']}"
    return Found(settings.config, Resumed(path, content, settings.changed), (*notes, words))


def _place_notes(config: Config, path: Path, content: Mapping[str, Any]) -> list[str]:
    """What the folder of a checkpoint means for where the run writes.

    Raises:
        ConfigError: the metrics file is another run's.
    """
    home, notes = home_of(path), list[str]()
    if home is None:
        notes.append(f"{path} lies in no run folder: the run goes on in a new one")
    elif config.run_name is not None and not home.name.startswith(f"{config.name}-{config.run_name}"):
        notes.append(f"run_name: {config.run_name} has no effect: the run goes on in {home}")
    metrics = Path(config.metrics_path) if config.metrics_path else home and home / "metrics.csv"
    if metrics:
        first, is_own = content.get("metrics_first"), not config.metrics_path
        notes += log_notes(metrics, first=first, last_round=content["round"], is_own=is_own)
    return notes


def _places(config: Config, environ: Mapping[str, str]) -> list[Path] | None:
    """Where to look for a checkpoint, in this order; None for a run that starts afresh.

    An earlier attempt of the same launch comes first, unless it ended before its first checkpoint.
    """
    attempt = folder_of_launch(environ)
    if attempt is not None and any(attempt.glob("checkpoints/checkpoint_*.pt")):
        return [attempt]
    if config.resume is None:
        return None
    return latest_runs(config) if config.resume == "auto" else [_existing(Path(config.resume))]


def _existing(place: Path) -> Path:
    try:
        is_there = place.exists()
    except OSError as error:
        raise CheckpointError(f"resume: {error.strerror}: {place}") from None
    if not is_there:
        raise CheckpointError(f"resume: {place} does not exist")
    return place


def require_fit(resumed: Resumed, config: Config, network: NetworkSpec) -> None:
    """Raises CheckpointError where a checkpoint is of another learner, network or task."""
    path, content = resumed.path, resumed.content
    kind, learner, saved = learner_kind(config.learner), content.get("learner", "ppo"), network_of(dict(content))
    if learner != config.learner:
        raise CheckpointError(f"resume: {path} is of learner: {learner}, this configuration of {config.learner}")
    if content["env"]["env_id"] != ", ".join(config.tasks):
        raise CheckpointError(
            f"resume: {path} is of {content['env']['env_id']}, this configuration of {', '.join(config.tasks)}; "
            f"init_from={path} would start a new run from its parameters"
        )
    if saved != network:
        changed = "".join(f"{name} has changed: " for name in sorted(resumed.changed & SHAPE))
        raise CheckpointError(
            f"resume: {changed}{path} has another shape: it holds {saved}, this configuration needs {network}"
        )
    count, needed = len(agreed_learner(content)[kind.trained]), kind.num_parameters(config, network)
    if count != needed:
        raise CheckpointError(f"resume: {path} holds {count:,} parameters, this configuration needs {needed:,}")


def restore_learner(resumed: Resumed, job: LearnerJob, learner: Learner, say: Callable[[str], None]) -> dict[str, Any]:
    """Sets one rank's learner to a checkpoint.

    Learners that differ go on so where they drift and are as many as they were. Else all start from what they agree on;
    learners that agree anyway keep what each has for itself, as far as there are as many.

    Returns:
        the state of `Sync` to go on from.

    Raises:
        CheckpointError: the checkpoint holds no state of such a learner.
    """
    content, topology = resumed.content, job.topology
    ranks, num_learners = content["ranks"], topology.num_learners
    is_apart = "agreed" in content and learner.is_drifting and len(ranks) == num_learners
    if len(ranks) != num_learners:
        say(f"note: the checkpoint has {len(ranks)} learners, this run {num_learners}: all start from the same state")
    own = ranks[topology.rank if topology.rank < len(ranks) else 0]["learner"]
    state = content["agreed"] if "agreed" in content and not is_apart else own
    if resumed.changed & RATE:
        state = {**state, "learning_rate": job.config.learning_rate}
    try:
        notes = learner.load_state_dict(state)
    except (KeyError, ValueError) as error:
        words = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise CheckpointError(f"resume: {resumed.path} is not a checkpoint of this learner: {words}") from error
    for note in notes:
        say(f"note: {note}")
    sync = content.get("sync", {})  # missing in checkpoints of earlier versions
    return dict(sync) if is_apart else {**sync, "rounds_apart": 0}


def restore_actors(resumed: Resumed, job: LearnerJob, pool: ActorPool, say: Callable[[str], None]) -> None:
    """Continues episodes where they stood, whatever actors the environments have now, if their state was saved."""
    if changed := sorted(resumed.changed & EPISODES):
        say(f"note: {', '.join(changed)} changed: episodes start again")
        return
    states, note = states_for(resumed.content, job)
    pool.restore(states)
    if note:
        say(f"note: {note}")


def is_finite(ranks: Sequence[Mapping[str, Any]]) -> bool:
    """Whether all that every rank's learner goes on from is finite."""
    states = (np.asarray(value) for rank in ranks for value in rank["learner"].values())
    return all(np.isfinite(state).all() for state in states if state.dtype.kind == "f")
