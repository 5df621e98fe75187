"""PPO as a kind of learner: what a run must know before there is one, and how to make it."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from ddp_ppo.config.settings import Config, ConfigError
from ddp_ppo.distributed.group import LearnerGroup
from ddp_ppo.learners.interface import Learner, LearnerJob
from ddp_ppo.learners.ppo.learner import ALONE, PPO, Averaging, resolve_update_backend
from ddp_ppo.learners.ppo.loss_settings import loss_settings
from ddp_ppo.learners.ppo.updates.critic_worker import (
    NO_TEAM,
    Team,
    can_have_worker,
    shared_shapes,
    trained_of,
    trained_shapes,
)
from ddp_ppo.learners.starting_point import fresh_start, warm_start
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.protocols import Arrays, EnvSpec, FloatArray, Shapes
from ddp_ppo.sampling.actor_pool import ActorPool


class PPOKind:
    trained = "parameters"
    metrics = PPO.metrics
    annotate = "ddp_ppo.learners.ppo.annotate:annotate_ppo"
    assistant = "ddp_ppo.learners.ppo.updates.critic_worker:CriticWorker"
    fresh_start = staticmethod(fresh_start)
    warm_start = staticmethod(warm_start)
    rollout_fields = staticmethod(PPO.rollout_fields)
    assistant_settings = staticmethod(loss_settings)

    def require(self, env: EnvSpec, config: Config, *, device: str) -> None:
        if config.ppo.update_backend == "numpy" and device != "cpu":
            raise ConfigError(f"update_backend: numpy runs on a CPU, this learner on {device}; use auto or torch")

    def network(self, config: Config, env: EnvSpec) -> NetworkSpec:
        return NetworkSpec.for_env(env, config.hidden_sizes, config.activation, config.conv_channels)

    def num_parameters(self, config: Config, network: NetworkSpec) -> int:
        return network.num_parameters

    def pretrained(self, config: Config, environ: Mapping[str, str]) -> Mapping[str, FloatArray]:
        return {}

    def shared_shapes(self, job: LearnerJob) -> Shapes:
        shapes = trained_shapes(job.network)
        return shapes | shared_shapes(job.network, job.num_samples) if self._has_worker(job) else shapes

    def torch_threads(self, job: LearnerJob) -> int:
        """One where NumPy trains: torch's other threads would spin on the core of the critic's worker (20 % slower)."""
        return 1 if self._backend(job) == "numpy" else job.num_threads

    def first_round(self, config: Config, num_envs: int) -> int:
        return 1

    def notes(self, config: Config, *, device: str) -> list[str]:
        notes = config.ppo.warnings(config.samples_per_round)
        if device.startswith("cuda") and config.ppo.minibatch_size < 512:
            size = config.ppo.minibatch_size
            notes.append(f"minibatch_size {size} leaves a GPU idle; 4096 and more suit it, or device=cpu")
        return notes

    def update_text(self, job: LearnerJob) -> str:
        config, samples, backend = job.config, job.num_samples, self._backend(job)
        size, last = min(config.ppo.minibatch_size, samples), samples % config.ppo.minibatch_size
        batches = -(-samples // size)
        rest = f" (the last one {last})" if last and batches > 1 else ""
        cores = 1 + self._has_worker(job) if backend == "numpy" else job.num_threads
        return (
            f"{config.ppo.num_epochs} epochs x {batches} mini-batches of {size}{rest} "
            f"= {config.ppo.num_epochs * batches} gradient steps a round, by {backend}, cores: {cores}"
        )

    def make(
        self, job: LearnerJob, parameters: FloatArray, *, arrays: Arrays, pool: ActorPool, group: LearnerGroup
    ) -> Learner:
        is_gradient_mode = self._averages_gradients(job)
        averaging = Averaging(
            group.average if is_gradient_mode else ALONE.gradient, group.average_scalar, is_gradient_mode
        )
        trained = trained_of(arrays)
        trained.parameters[:] = parameters
        return PPO(
            job.config,
            job.network,
            trained,
            device=torch.device(job.topology.device),
            averaging=averaging,
            team=self._team(job, arrays, pool),
            rank=job.topology.rank,
        )

    def _team(self, job: LearnerJob, arrays: Arrays, pool: ActorPool) -> Team:
        if not self._has_worker(job):
            return NO_TEAM
        return Team(arrays, True, pool.begin_assist, pool.end_assist, pool.is_assistant_lost, pool.replace_assistant)

    def _backend(self, job: LearnerJob) -> str:
        """What computes the gradient steps: "numpy" or "torch"."""
        return resolve_update_backend(job.config, job.topology.device.split(":")[0])

    def _averages_gradients(self, job: LearnerJob) -> bool:
        return job.config.sync_mode == "gradients" and job.topology.num_learners > 1

    def _has_worker(self, job: LearnerJob) -> bool:
        """Whether an idle actor trains the critic while the learner trains the actor."""
        if self._backend(job) != "numpy" or job.config.overlap or self._averages_gradients(job):
            return False  # overlapping actors work
        return can_have_worker(job.topology.num_actors, job.num_threads)
