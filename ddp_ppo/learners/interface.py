"""The seam between learning algorithms and the rest: what a learner does, and what is to be known of its kind.

Trainer, sampler and plan speak to these alone and never ask which algorithm they have; registry.py has the table.

Shapes: P parameters of the network that acts, T rollout_length, B environments of a learner, N = T * B.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from ddp_ppo.config.settings import Config, ConfigError
from ddp_ppo.distributed.group import LearnerGroup
from ddp_ppo.distributed.topology import TrainingTopology
from ddp_ppo.learners import starting_point
from ddp_ppo.learners.starting_point import StartingPoint
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.protocols import Arrays, EnvSpec, FloatArray, Shapes
from ddp_ppo.runs.metric_table import Metric
from ddp_ppo.sampling.actor import AssistantFactory
from ddp_ppo.sampling.actor_pool import ActorPool
from ddp_ppo.sampling.rollout import Annotate, Field, Rollout


class Common(NamedTuple):
    """What all learners have to agree on, by name: the tensors themselves, not copies.

    Every name is also one of the learner's state dict.

    Attributes:
        averaged: where learners sync, each becomes its mean over all of them; the first is what is trained.
        counted: each becomes its mean, rounded to a whole number.
    """

    averaged: dict[str, Tensor]
    counted: dict[str, Tensor]

    @property
    def tensors(self) -> dict[str, Tensor]:
        """All of them, what is trained first."""
        return {**self.averaged, **self.counted}


class Learner(Protocol):
    """What trains in a learner's process. What it averages inside a step goes through functions that it was given.

    Nothing else reads its state, which a checkpoint keeps, except for what is said here.
    """

    @property
    def network(self) -> NetworkSpec:
        """What actors act with."""

    @property
    def learning_rate(self) -> float:
        """Of the last step; the same for all learners."""

    @property
    def is_drifting(self) -> bool:
        """Whether what is common differs between learners until it is averaged; else it is equal after every step."""

    def train_step(
        self, updates: Rollout, *, round_index: int = 0, done: float = 0.0
    ) -> tuple[dict[str, Tensor], dict[str, float]]:
        """Trains on a rollout and clears it.

        Args:
            updates: this round's annotated rollout, which says what it was normalised with.
            round_index: 0-based, for random streams.
            done: part of the run's environment steps before this round, in [0, 1), for the learning-rate schedule.

        Returns:
            a state dict of what was trained, and metrics with the same names in every round: "buffer_size" (samples
            before the rollout was cleared), "train/learning_rate", "train/gradient_steps", whatever else it measures as
            "train/...", and "time/transfer_seconds" where moving the rollout to its device takes time.

        Raises:
            NonFiniteError: nothing can be learned from what it met.
        """

    def acting_parameters(self) -> FloatArray:
        """A copy of the parameters [P] that actors act with."""

    def common(self) -> Common:
        """What all learners have to agree on."""

    def sample_losses(self, updates: Rollout) -> dict[str, Tensor]:
        """The losses of each sample [N], to look for a bad one; empty where they do not belong to samples."""

    def state_dict(self) -> dict[str, Any]:
        """All that training goes on from: tensors and plain values, with those that act as "parameters" [P]."""

    def load_state_dict(self, state: Mapping[str, Any]) -> Sequence[str]:
        """Goes on from a state dict, its tensors NumPy arrays; what a person should know of it, one line each.

        Raises:
            KeyError, ValueError: it is not a state of such a learner.
        """


@dataclass(frozen=True, kw_only=True)
class LearnerJob:
    """What is known of a learner's work before a process is started or a file written.

    Attributes:
        network: what actors act with.
        num_threads: cores that its update may use.
        pretrained: arrays by name that were trained elsewhere; empty where the learner needs none.
    """

    config: Config
    topology: TrainingTopology
    env: EnvSpec
    network: NetworkSpec
    num_threads: int
    pretrained: Mapping[str, FloatArray]

    @property
    def num_samples(self) -> int:
        """N, samples of one learner in a round."""
        return self.config.rollout_length * self.topology.num_envs


@dataclass(frozen=True, kw_only=True)
class Workplace:
    """What a learner finds in its process.

    Attributes:
        start: where training starts; its parameters are all that is trained.
        group: the other learners.
        arrays: what it shares with its actors.
        pool: the actors themselves, one of which may help it.
    """

    start: StartingPoint
    group: LearnerGroup
    arrays: Arrays
    pool: ActorPool


REQUIRED_METRICS = ("buffer_size", "train/learning_rate", "train/gradient_steps")


def require_metrics(learner: str, metrics: Mapping[str, float]) -> None:
    """Raises ConfigError if the `train_step` of this learner lacks one of the metrics that every run records."""
    if missing := [name for name in REQUIRED_METRICS if name not in metrics]:
        raise ConfigError(f"learner: {learner}: the metrics of train_step lack {', '.join(missing)}")


class Requirement(Protocol):
    """A check before anything is started."""

    def __call__(self, env: EnvSpec, config: Config, *, device: str) -> None:
        """Raises ConfigError where the learner cannot learn this task, or not with these settings."""


def _require_nothing(env: EnvSpec, config: Config, *, device: str) -> None:
    pass


def _update_text(job: LearnerJob) -> str:
    return f"on {job.num_samples:,} samples, cores: {job.num_threads}"


@dataclass(frozen=True, kw_only=True)
class LearnerKind:
    """What a run must know of its learner before there is one, and how to make it; a row of the registry.

    The first six are all that a new learner needs. `annotate` and what `assistant` returns travel to the actors by
    reference: an actor imports their modules, so these should not import torch.

    Attributes:
        name: what the setting `learner` and the section of its settings are called.
        settings: the frozen data class of its settings, declared with `config.setting.setting`.
        network: what actors act with.
        rollout_fields: what a rollout holds; "obs" may be kept as bytes, and "final_obs" is a `FinalObs`.
        annotate: completes a rollout in the actor that has sampled it.
        make: the learner of this process.
        reads_final_obs: whether it reads "final_obs", which then cross the pipe from the actors.
        metrics: rows of the table of metrics for what its train_step measures.
        trained: the name of all parameters that are trained, in a learner's state dict.
        require: raises ConfigError where it cannot learn this task, or not with these settings.
        num_parameters: how many are trained.
        pretrained: arrays that were trained elsewhere; raises ConfigError where they are missing or damaged.
        fresh_start: where a run of this seed starts.
        warm_start: where one with init_from starts; raises CheckpointError.
        notes: settings that work on this device but may not be meant.
        update_text: the arithmetic of a round's update, for a person.
        first_round: the first round that trains, from 1, of a learner with so many environments.
        torch_threads: threads of torch in the learner's process.
        shared_shapes: what learner and actors share besides rollouts and what those are sampled with.
        assistant: makes, in an idle actor, what helps the learner to train; None where nothing does.
    """

    name: str
    settings: type[Any]
    network: Callable[[Config, EnvSpec], NetworkSpec]
    rollout_fields: Callable[[NetworkSpec], tuple[Field, ...]]
    annotate: Annotate
    make: Callable[[LearnerJob, Workplace], Learner]
    reads_final_obs: Callable[[Config], bool] = lambda config: True
    metrics: tuple[Metric, ...] = ()
    trained: str = "parameters"
    require: Requirement = _require_nothing
    num_parameters: Callable[[Config, NetworkSpec], int] = lambda config, network: network.num_parameters
    pretrained: Callable[[Config, Mapping[str, str]], Mapping[str, FloatArray]] = lambda config, environ: {}
    fresh_start: Callable[[Config, NetworkSpec], StartingPoint] = starting_point.fresh_start
    warm_start: Callable[[Config, NetworkSpec], StartingPoint] = starting_point.warm_start
    notes: Callable[[Config, str], list[str]] = lambda config, device: []
    update_text: Callable[[LearnerJob], str] = _update_text
    first_round: Callable[[Config, int], int] = lambda config, num_envs: 1
    torch_threads: Callable[[LearnerJob], int] = lambda job: job.num_threads
    shared_shapes: Callable[[LearnerJob], Shapes] = lambda job: {}
    assistant: Callable[[LearnerJob], AssistantFactory | None] = lambda job: None
