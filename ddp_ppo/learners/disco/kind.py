"""DiscoRL as a kind of learner: what a run must know before there is one, and how to make it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from ddp_ppo.config.disco import DiscoSettings
from ddp_ppo.config.settings import Config, ConfigError
from ddp_ppo.learners.disco.agent import Agent, AgentSpec
from ddp_ppo.learners.disco.agent import initial_parameters as initial_agent
from ddp_ppo.learners.disco.annotate import annotate_disco
from ddp_ppo.learners.disco.learner import DiscoLearner
from ddp_ppo.learners.disco.meta_network import MetaNetwork
from ddp_ppo.learners.disco.metrics import DISCO_METRICS
from ddp_ppo.learners.disco.weights import find_weights, load_weights
from ddp_ppo.learners.interface import Learner, LearnerJob, LearnerKind, Workplace
from ddp_ppo.learners.starting_point import StartingPoint
from ddp_ppo.maths.moments import empty_rms_state
from ddp_ppo.maths.seeding import Purpose, stream
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.protocols import EnvSpec, FloatArray
from ddp_ppo.runs.agreement import agreed_learner
from ddp_ppo.runs.checkpoint import find_checkpoint, is_checkpoint, network_of
from ddp_ppo.runs.files import CheckpointError

_TRAINED = "agent"


def _require(env: EnvSpec, config: Config, *, device: str) -> None:
    if env.action.num_choices is None:
        raise ConfigError(
            f"learner: disco needs discrete actions, {env.env_id} has {env.action.describe()}: the rule reads "
            "policy, values and predictions of each single action; discretize_actions: 3 makes choices of a few "
            "dimensions, learner: ppo trains this task as it is"
        )


def _network(config: Config, env: EnvSpec) -> NetworkSpec:
    hidden, channels = config.hidden_sizes[:-1], config.conv_channels
    return NetworkSpec.for_env(env, hidden, "relu", channels, image_layout=config.image_layout)


def _num_parameters(config: Config, network: NetworkSpec) -> int:
    return _agent_spec(config, network).num_parameters


def _pretrained(config: Config, environ: Mapping[str, str]) -> Mapping[str, FloatArray]:
    return load_weights(find_weights(config.disco.weights, environ))


def _fresh_start(config: Config, network: NetworkSpec) -> StartingPoint:
    parameters = initial_agent(_agent_spec(config, network), stream(config.seed, Purpose.INIT))
    return StartingPoint(parameters, empty_rms_state(network.obs_size), empty_rms_state(1))


def _warm_start(config: Config, network: NetworkSpec) -> StartingPoint:
    """The complete agent of a checkpoint; a model file holds no more of it than what acts."""
    path, start = Path(config.init_from or ""), _fresh_start(config, network)
    if not path.exists() or (path.is_file() and not is_checkpoint(path)):
        raise CheckpointError(f"init_from: {path} is neither a run folder nor a checkpoint, which learner: disco needs")
    path, content, _ = find_checkpoint(path)
    agent, found = agreed_learner(content).get(_TRAINED, np.zeros(0, np.float32)), network_of(content)
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


def _notes(config: Config, device: str) -> list[str]:
    first, rounds = _first_round(config, config.envs_per_learner), config.num_rounds(config.num_gpus)
    if first <= rounds:
        return []
    return [
        f"nothing is trained: the replay holds disco.batch_size: {config.disco.batch_size} trajectories in round "
        f"{first}, the run has {rounds}; raise total_env_steps, or lower disco.batch_size or rollout_length"
    ]


def _first_round(config: Config, num_envs: int) -> int:
    """That in which the replay holds a batch."""
    return -(-config.disco.batch_size // num_envs) if config.disco.replay_capacity else 1


def _update_text(job: LearnerJob) -> str:
    settings, first = job.config.disco, _first_round(job.config, job.topology.num_envs)
    source = f"of the last {settings.replay_capacity}" if settings.replay_capacity else "of the round"
    size = settings.batch_size if settings.replay_capacity else job.topology.num_envs
    return (
        f"{settings.updates_per_round} x {size} trajectories {source}, {job.config.rollout_length} steps each, "
        f"by torch, cores: {job.num_threads}" + (f"; from round {first} on" if first > 1 else "")
    )


def _make(job: LearnerJob, workplace: Workplace) -> Learner:
    device = torch.device(job.topology.device)
    parameters = torch.tensor(workplace.start.parameters, device=device)
    return DiscoLearner(
        job.config,
        Agent(_agent_spec(job.config, job.network), parameters),
        meta=MetaNetwork(job.pretrained, device),
        average=workplace.group.average,
        rank=job.topology.rank,
    )


def _agent_spec(config: Config, network: NetworkSpec) -> AgentSpec:
    return AgentSpec(
        network.obs_size,
        network.action_size,
        config.hidden_sizes,
        conv_channels=network.conv_channels,
        image=network.image,
        image_layout=network.image_layout,
        obs_scale=network.obs_scale,
    )


KIND = LearnerKind(
    name="disco",
    settings=DiscoSettings,
    network=_network,
    rollout_fields=DiscoLearner.rollout_fields,
    annotate=annotate_disco,
    make=_make,
    reads_final_obs=lambda config: False,
    metrics=DISCO_METRICS,
    trained=_TRAINED,
    require=_require,
    num_parameters=_num_parameters,
    pretrained=_pretrained,
    fresh_start=_fresh_start,
    warm_start=_warm_start,
    notes=_notes,
    update_text=_update_text,
    first_round=_first_round,
)
