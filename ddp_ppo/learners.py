"""The learners that a run can choose from, as a table; a further algorithm is one more class here and one more row.

What the methods mean is said in `learner_kind.LearnerKind`.

Shapes: P parameters of the network that acts.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ddp_ppo.actor_pool import ActorPool
from ddp_ppo.checkpoint import CheckpointError, find_checkpoint, is_checkpoint, network_of
from ddp_ppo.config import Config, ConfigError, warnings
from ddp_ppo.disco.agent import Agent, AgentSpec
from ddp_ppo.disco.agent import initial_parameters as initial_agent
from ddp_ppo.disco.learner import DiscoLearner
from ddp_ppo.disco.meta_network import MetaNetwork
from ddp_ppo.disco.settings import DiscoSettings
from ddp_ppo.disco.weights import find_weights, load_weights
from ddp_ppo.distributed import Learners
from ddp_ppo.learner_kind import Learner, LearnerJob, LearnerKind
from ddp_ppo.moments import empty_rms_state
from ddp_ppo.networks import NetworkSpec
from ddp_ppo.ppo import ALONE, NO_TEAM, PPO, Averaging, loss_settings, resolve_update_backend
from ddp_ppo.ppo_workers import Shapes, Team, can_have_worker, shared_shapes, trained_of, trained_shapes
from ddp_ppo.protocols import EnvSpec, FloatArray
from ddp_ppo.rollout import Arrays
from ddp_ppo.seeding import Purpose, stream
from ddp_ppo.warm_start import StartingPoint, fresh_start, warm_start


class _PPOKind:
    trained = "parameters"
    annotate = "ddp_ppo.annotate:annotate_ppo"
    assistant = "ddp_ppo.ppo_workers:CriticWorker"
    fresh_start = staticmethod(fresh_start)
    warm_start = staticmethod(warm_start)
    rollout_fields = staticmethod(PPO.rollout_fields)
    assistant_settings = staticmethod(loss_settings)

    def require(self, env: EnvSpec, config: Config, *, device: str) -> None:
        if config.update_backend == "numpy" and device != "cpu":
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
        notes = warnings(config)
        if device.startswith("cuda") and config.minibatch_size < 512:
            size = config.minibatch_size
            notes.append(f"minibatch_size {size} leaves a GPU idle; 4096 and more suit it, or device=cpu")
        return notes

    def update_text(self, job: LearnerJob) -> str:
        config, samples, backend = job.config, job.num_samples, self._backend(job)
        size, last = min(config.minibatch_size, samples), samples % config.minibatch_size
        batches = -(-samples // size)
        rest = f" (the last one {last})" if last and batches > 1 else ""
        cores = 1 + self._has_worker(job) if backend == "numpy" else job.num_threads
        return (
            f"{config.num_epochs} epochs x {batches} mini-batches of {size}{rest} "
            f"= {config.num_epochs * batches} gradient steps a round, by {backend}, cores: {cores}"
        )

    def make(
        self, job: LearnerJob, parameters: FloatArray, *, arrays: Arrays, pool: ActorPool, learners: Learners
    ) -> Learner:
        is_gradient_mode = self._averages_gradients(job)
        averaging = Averaging(
            learners.average if is_gradient_mode else ALONE.gradient, learners.average_scalar, is_gradient_mode
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


class _DiscoKind:
    trained = "agent"
    annotate = "ddp_ppo.annotate:annotate_disco"
    assistant = ""
    rollout_fields = staticmethod(DiscoLearner.rollout_fields)

    def require(self, env: EnvSpec, config: Config, *, device: str) -> None:
        if env.action_kind == "box":
            raise ConfigError(
                f"learner: disco needs discrete actions, {env.env_id} has {env.action_size} continuous: the rule reads "
                "policy, values and predictions of each single action; discretize_actions: 3 makes choices of a few "
                "dimensions, learner: ppo trains this task as it is"
            )

    def network(self, config: Config, env: EnvSpec) -> NetworkSpec:
        return NetworkSpec.for_env(env, config.hidden_sizes[:-1], "relu", config.conv_channels)

    def num_parameters(self, config: Config, network: NetworkSpec) -> int:
        return self._agent_spec(config, network).num_parameters

    def pretrained(self, config: Config, environ: Mapping[str, str]) -> Mapping[str, FloatArray]:
        return load_weights(find_weights(config.disco_weights, environ))

    def fresh_start(self, config: Config, network: NetworkSpec) -> StartingPoint:
        parameters = initial_agent(self._agent_spec(config, network), stream(config.seed, Purpose.INIT))
        return StartingPoint(parameters, empty_rms_state(network.obs_size), empty_rms_state(1))

    def warm_start(self, config: Config, network: NetworkSpec) -> StartingPoint:
        """The whole agent of a checkpoint; a model file holds no more of it than what acts."""
        path, start = Path(config.init_from or ""), self.fresh_start(config, network)
        if not path.exists() or (path.is_file() and not is_checkpoint(path)):
            raise CheckpointError(
                f"init_from: {path} is neither a run folder nor a checkpoint, which learner: disco needs"
            )
        path, content, _ = find_checkpoint(path)
        agent, found = content["ranks"][0]["learner"].get(self.trained, np.zeros(0, np.float32)), network_of(content)
        if found != network or agent.shape != start.parameters.shape:
            raise CheckpointError(
                f"init_from: {path} has another shape: it holds {found} and {len(agent):,} parameters of an agent, "
                f"this configuration needs {network} and {len(start.parameters):,}"
            )
        if config.init_statistics == "restart":
            return start._replace(parameters=agent)
        if content["obs_rms_state"]["count"] and not config.normalize_obs:
            raise CheckpointError(f"init_from: {path} acts on normalised observations; set normalize_obs: true")
        return StartingPoint(agent, content["obs_rms_state"], content["return_rms_state"])

    def assistant_settings(self, config: Config) -> Any:
        return None

    def shared_shapes(self, job: LearnerJob) -> Shapes:
        return {}

    def torch_threads(self, job: LearnerJob) -> int:
        return job.num_threads

    def notes(self, config: Config, *, device: str) -> list[str]:
        first, rounds = self.first_round(config, config.envs_per_learner), config.num_rounds(config.num_gpus)
        if first <= rounds:
            return []
        return [
            f"nothing is trained: the replay holds disco_batch_size: {config.disco_batch_size} trajectories in round "
            f"{first}, the run has {rounds}; raise total_env_steps, or lower disco_batch_size or rollout_length"
        ]

    def first_round(self, config: Config, num_envs: int) -> int:
        """That in which the replay holds a batch."""
        return -(-config.disco_batch_size // num_envs) if config.disco_replay_capacity else 1

    def update_text(self, job: LearnerJob) -> str:
        settings, first = _disco_settings(job.config), self.first_round(job.config, job.topology.num_envs)
        source = f"of the last {settings.replay_capacity}" if settings.replay_capacity else "of the round"
        size = settings.batch_size if settings.replay_capacity else job.topology.num_envs
        return (
            f"{settings.updates_per_round} x {size} trajectories {source}, {job.config.rollout_length} steps each, "
            f"by torch, cores: {job.num_threads}" + (f"; from round {first} on" if first > 1 else "")
        )

    def make(
        self, job: LearnerJob, parameters: FloatArray, *, arrays: Arrays, pool: ActorPool, learners: Learners
    ) -> Learner:
        device = torch.device(job.topology.device)
        agent = Agent(self._agent_spec(job.config, job.network), torch.tensor(parameters, device=device))
        return DiscoLearner(
            _disco_settings(job.config),
            agent,
            meta=MetaNetwork(job.pretrained, device),
            average=learners.average,
            rank=job.topology.rank,
        )

    def _agent_spec(self, config: Config, network: NetworkSpec) -> AgentSpec:
        return AgentSpec(
            network.obs_size,
            network.action_size,
            config.hidden_sizes,
            conv_channels=network.conv_channels,
            image=network.image,
            obs_scale=network.obs_scale,
        )


def _disco_settings(config: Config) -> DiscoSettings:
    schedule = config.learning_rate_schedule
    assert schedule != "adaptive"  # the configuration has been checked
    return DiscoSettings(
        config.learning_rate,
        schedule,
        config.gamma,
        config.disco_retrace_lambda,
        config.disco_batch_size,
        config.disco_replay_capacity,
        config.disco_updates_per_round,
        config.seed,
    )


LEARNERS: dict[str, LearnerKind] = {"ppo": _PPOKind(), "disco": _DiscoKind()}  # the choices of the setting `learner`
