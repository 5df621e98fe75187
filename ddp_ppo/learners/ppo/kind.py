"""PPO as a kind of learner: what a run must know before there is one, and how to make it."""

from __future__ import annotations

from functools import partial

import torch

from ddp_ppo.config.ppo import PPOSettings
from ddp_ppo.config.settings import Config, ConfigError
from ddp_ppo.learners.interface import Learner, LearnerJob, LearnerKind, Workplace
from ddp_ppo.learners.ppo.annotate import annotate_ppo
from ddp_ppo.learners.ppo.learner import ALONE, PPO, Averaging, resolve_update_backend
from ddp_ppo.learners.ppo.loss_settings import loss_settings
from ddp_ppo.learners.ppo.metrics import PPO_METRICS
from ddp_ppo.learners.ppo.updates.critic_worker import (
    NO_TEAM,
    CriticWorker,
    Team,
    can_have_worker,
    shared_shapes,
    trained_of,
    trained_shapes,
)
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.protocols import EnvSpec, Shapes
from ddp_ppo.sampling.actor import AssistantFactory


def _require(env: EnvSpec, config: Config, *, device: str) -> None:
    if config.ppo.update_backend == "numpy" and device != "cpu":
        raise ConfigError(f"update_backend: numpy runs on a CPU, this learner on {device}; use auto or torch")


def _network(config: Config, env: EnvSpec) -> NetworkSpec:
    return NetworkSpec.for_env(
        env, config.hidden_sizes, config.activation, config.conv_channels, image_layout=config.image_layout
    )


def _notes(config: Config, device: str) -> list[str]:
    notes = config.ppo.warnings(config.samples_per_round)
    if device.startswith("cuda") and config.ppo.minibatch_size < 512:
        size = config.ppo.minibatch_size
        notes.append(f"minibatch_size {size} leaves a GPU idle; 4096 and more suit it, or device=cpu")
    return notes


def _update_text(job: LearnerJob) -> str:
    config, samples, backend = job.config, job.num_samples, _backend(job)
    size, last = min(config.ppo.minibatch_size, samples), samples % config.ppo.minibatch_size
    batches = -(-samples // size)
    rest = f" (the last one {last})" if last and batches > 1 else ""
    cores = 1 + _has_worker(job) if backend == "numpy" else job.num_threads
    return (
        f"{config.ppo.num_epochs} epochs x {batches} mini-batches of {size}{rest} "
        f"= {config.ppo.num_epochs * batches} gradient steps per round, by {backend}, cores: {cores}"
    )


def _torch_threads(job: LearnerJob) -> int:
    """One where NumPy trains: torch's other threads would spin on the core of the critic's worker (20 % slower)."""
    return 1 if _backend(job) == "numpy" else job.num_threads


def _shared_shapes(job: LearnerJob) -> Shapes:
    shapes = trained_shapes(job.network)
    return shapes | shared_shapes(job.network, job.num_samples) if _has_worker(job) else shapes


def _assistant(job: LearnerJob) -> AssistantFactory | None:
    settings = loss_settings(job.config)
    return partial(CriticWorker, network=job.network, settings=settings) if _has_worker(job) else None


def _make(job: LearnerJob, workplace: Workplace) -> Learner:
    group = workplace.group
    is_gradient_mode = _averages_gradients(job)
    gradient = group.average if is_gradient_mode else ALONE.gradient
    trained = trained_of(workplace.arrays)
    trained.parameters[:] = workplace.start.parameters
    return PPO(
        job.config,
        job.network,
        trained,
        device=torch.device(job.topology.device),
        averaging=Averaging(gradient, group.average_scalar, is_gradient_mode),
        team=_team(job, workplace),
        rank=job.topology.rank,
    )


def _team(job: LearnerJob, workplace: Workplace) -> Team:
    if not _has_worker(job):
        return NO_TEAM
    pool = workplace.pool
    return Team(
        arrays=workplace.arrays,
        has_worker=True,
        begin=pool.begin_assist,
        end=pool.end_assist,
        is_lost=pool.is_assistant_lost,
        replace=pool.replace_assistant,
    )


def _backend(job: LearnerJob) -> str:
    """What computes the gradient steps: "numpy" or "torch"."""
    return resolve_update_backend(job.config, job.topology.device.split(":")[0])


def _averages_gradients(job: LearnerJob) -> bool:
    """Whether learners meet in every mini-batch; the one place that decides it, else they average parameters."""
    return job.config.sync_mode == "gradients" and job.topology.num_learners > 1


def _has_worker(job: LearnerJob) -> bool:
    """Whether an idle actor trains the critic while the learner trains the actor."""
    if _backend(job) != "numpy" or job.config.overlap or _averages_gradients(job):
        return False  # overlapping actors work
    return can_have_worker(job.topology.num_actors, job.num_threads)


KIND = LearnerKind(
    name="ppo",
    settings=PPOSettings,
    network=_network,
    rollout_fields=PPO.rollout_fields,
    annotate=annotate_ppo,
    make=_make,
    reads_final_obs=lambda config: config.ppo.recompute_advantages,
    metrics=PPO_METRICS,
    require=_require,
    notes=_notes,
    update_text=_update_text,
    torch_threads=_torch_threads,
    shared_shapes=_shared_shapes,
    assistant=_assistant,
)
