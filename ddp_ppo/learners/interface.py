"""The seam between learning algorithms and the rest: what a learner does, and what is to be known of its kind.

Trainer, sampler and plan speak to these alone and never ask which algorithm they have; learners.py has the table.

Shapes: P parameters of the network that acts, T rollout_length, B environments of a learner, N = T * B.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from ddp_ppo.config.settings import Config
from ddp_ppo.distributed.group import LearnerGroup
from ddp_ppo.distributed.topology import TrainingTopology
from ddp_ppo.learners.starting_point import StartingPoint
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.protocols import Arrays, EnvSpec, FloatArray, Shapes
from ddp_ppo.sampling.actor_pool import ActorPool
from ddp_ppo.sampling.rollout import Field, Rollout


class Learner(Protocol):
    """What trains in a learner's process. What it averages inside a step goes through functions that it was given."""

    @property
    def network(self) -> NetworkSpec:
        """What actors act with."""

    @property
    def learning_rate(self) -> float:
        """Of the last step."""

    @property
    def averages_parameters(self) -> bool:
        """Whether what is common drifts apart until it is averaged; else learners are equal after every step."""

    def train_step(
        self, updates: Rollout, *, round_index: int = 0, done: float = 0.0
    ) -> tuple[dict[str, Tensor], dict[str, float]]:
        """Trains on a rollout and clears it; a state dict and metrics, with the same names in every round.

        Args:
            updates: this round's annotated rollout, which says what it was normalised with.
            round_index: 0-based, for random streams.
            done: part of the run's environment steps before this round, in [0, 1), for the learning-rate schedule.

        Raises:
            NonFiniteError: nothing can be learned from what it met.
        """

    def acting_parameters(self) -> FloatArray:
        """A copy of the parameters [P] that actors act with."""

    def common(self) -> dict[str, Tensor]:
        """What all learners have to agree on, the tensors themselves; what was trained first, Adam's count as step."""

    def sample_losses(self, updates: Rollout) -> dict[str, Tensor]:
        """The losses of each sample [N], to look for a bad one; empty where they do not belong to samples."""

    def state_dict(self) -> dict[str, Any]:
        """All that training goes on from; "parameters" are those that act."""

    def load_state_dict(self, state: Mapping[str, Any]) -> bool:
        """Goes on from a state dict, its tensors NumPy arrays; True if log_std had to be brought into its range."""


@dataclass(frozen=True)
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


class LearnerKind(Protocol):
    """What a run must know of its learner before there is one, and how to make it; a row of `learners.LEARNERS`."""

    trained: str  # the name of all parameters that are trained in a learner's state dict
    annotate: str  # what completes a rollout in the actor, "module:function"
    assistant: str  # what an idle actor helps with, "module:Class"; "" for nothing

    def require(self, env: EnvSpec, config: Config, *, device: str) -> None:
        """Raises ConfigError where it cannot learn this task, or not with these settings."""

    def network(self, config: Config, env: EnvSpec) -> NetworkSpec:
        """What actors act with."""

    def num_parameters(self, config: Config, network: NetworkSpec) -> int:
        """Of all that is trained."""

    def pretrained(self, config: Config, environ: Mapping[str, str]) -> Mapping[str, FloatArray]:
        """Arrays that were trained elsewhere; raises ConfigError where they are missing or damaged."""

    def fresh_start(self, config: Config, network: NetworkSpec) -> StartingPoint:
        """Where a run of this seed starts."""

    def warm_start(self, config: Config, network: NetworkSpec) -> StartingPoint:
        """Where one with init_from starts; raises CheckpointError."""

    def rollout_fields(self, network: NetworkSpec) -> tuple[Field, ...]:
        """What a rollout holds."""

    def assistant_settings(self, config: Config) -> Any:
        """What the assistant is told."""

    def shared_shapes(self, job: LearnerJob) -> Shapes:
        """What learner and actors share besides rollouts and what those are sampled with."""

    def torch_threads(self, job: LearnerJob) -> int:
        """Threads of torch in the learner's process."""

    def first_round(self, config: Config, num_envs: int) -> int:
        """The first round that trains, from 1, of a learner with so many environments."""

    def notes(self, config: Config, *, device: str) -> list[str]:
        """Settings that work but may not be meant."""

    def update_text(self, job: LearnerJob) -> str:
        """The arithmetic of a round's update, for a person."""

    def make(
        self, job: LearnerJob, parameters: FloatArray, *, arrays: Arrays, pool: ActorPool, group: LearnerGroup
    ) -> Learner:
        """The learner of this process, with the parameters of its start."""
