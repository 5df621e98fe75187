"""What a run will do, found out before a process is started or a file written: `prepare` checks.

Shapes: T rollout_length, B environments of a learner, D observation size, P parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ddp_ppo.config.packaged import name_of_run
from ddp_ppo.config.settings import GENERAL, Config, ConfigError
from ddp_ppo.distributed.topology import TrainingTopology, resolve_training_topology
from ddp_ppo.envs.build import backend_notes, describe_env
from ddp_ppo.envs.parent_only import require_known_to_actors
from ddp_ppo.learners.interface import LearnerJob, LearnerKind
from ddp_ppo.learners.registry import learner_kind
from ddp_ppo.learners.starting_point import StartingPoint
from ddp_ppo.machine import has_mps, num_cuda_devices, this_machine
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.policies.registry import build_policy, chosen_backend
from ddp_ppo.protocols import EnvSpec
from ddp_ppo.runs.checkpoint import with_tuples
from ddp_ppo.runs.folder import require_writable
from ddp_ppo.runs.model_env import limit_change
from ddp_ppo.sampling.blocks import are_shared
from ddp_ppo.sampling.episodes import num_instances
from ddp_ppo.sampling.rollout import DISCOUNTED_RETURN, Field, rollout_shapes, slot_name
from ddp_ppo.sampling.shared_memory import block_bytes
from ddp_ppo.training.advice import action_advice, image_advice, machine_advice
from ddp_ppo.training.resume import Resumed, find_resumed, require_fit


@dataclass(frozen=True, kw_only=True)
class Plan(LearnerJob):
    """Everything that is known before a process starts or a file is written."""

    num_rounds: int
    resumed: Resumed | None
    notes: tuple[str, ...]

    @property
    def block_shapes(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """The arrays that this learner shares with its actors."""
        shapes: dict[str, tuple[str, tuple[int, ...]]] = {
            "progress": ("int64", (self.topology.num_actors,)),
            **self.kind.shared_shapes(self),
        }
        in_each_slot: dict[str, tuple[str, tuple[int, ...]]] = {
            "parameters": ("float32", (self.network.num_parameters,)),
            "obs_mean": ("float64", (self.network.obs_size,)),
            "obs_var": ("float64", (self.network.obs_size,)),
            "obs_count": ("float64", (1,)),
            "reward_scale": ("float64", (1,)),
            **rollout_shapes(self.fields, self.config.rollout_length, self.topology.num_envs),
        }
        if self.config.normalize_reward and are_shared(self.topology.slices, self.topology.num_envs):
            size = (self.config.rollout_length, self.topology.num_envs)
            in_each_slot[DISCOUNTED_RETURN] = ("float64", size)
        for slot in range(self.num_slots):
            shapes |= {slot_name(name, slot): shape for name, shape in in_each_slot.items()}
        return shapes

    @property
    def kind(self) -> LearnerKind:
        """What there is to know of the learner."""
        return learner_kind(self.config.learner)

    @property
    def fields(self) -> tuple[Field, ...]:
        """What the shared memory holds of a rollout; the final observations, which are sparse, are not in it."""
        fields = (field for field in self.kind.rollout_fields(self.network) if field.name != "final_obs")
        return tuple(replace(one, dtype=self.env.obs_dtype) if one.name == "obs" else one for one in fields)

    @property
    def num_slots(self) -> int:
        """Rollouts that the block has room for: two where sampling overlaps training."""
        return 2 if self.config.overlap else 1

    @property
    def transitions_per_round(self) -> int:
        """Environment steps of a round, all learners together."""
        return self.config.transitions_per_round(self.topology.num_learners)

    @property
    def num_env_steps(self) -> int:
        """Environment steps of the run in total, when its last round is done."""
        before = _done(self.resumed)
        return before["env_steps"] + (self.num_rounds - before["done"]) * self.transitions_per_round

    @property
    def num_training_instances(self) -> int:
        """Environments that all learners train in."""
        return self.topology.num_envs * max(1, self.topology.num_learners)

    @property
    def num_eval_instances(self) -> list[int]:
        """Environments that each actor of rank 0 builds for evaluations; 0 lends those that it trains in."""
        limit = self.config.max_env_instances
        left = None if limit is None else limit - self.num_training_instances
        return num_instances(self.config.eval_episodes, self.topology.num_actors, left)

    @property
    def in_force(self) -> dict[str, str]:
        """What settings such as auto and null have come to in this run."""
        topology = self.topology
        return {
            "learners": str(topology.num_learners),
            "device": topology.device.partition(":")[0],
            "group_backend": topology.backend,
            "env_backend": self.env.backend,
            "policy_backend": chosen_backend(self.config.policy_backend, self.network),
            "actors": actors_text(topology),
            "threads": str(self.num_threads),
            "update": self.kind.update_text(self),
        }

    def starting_point(self) -> StartingPoint:
        """Parameters and statistics that training starts from; a resumed run goes on with its checkpoint's instead."""
        is_warm = self.config.init_from is not None and self.resumed is None
        return (self.kind.warm_start if is_warm else self.kind.fresh_start)(self.config, self.network)


def prepare(config: Config, *, environ: Mapping[str, str]) -> Plan:
    """Checks everything that can be checked without starting an actor or writing a file.

    Raises:
        ConfigError, EnvError, CheckpointError: one line that says what is wrong, where, and what to do.
    """
    config, resumed, notes = find_resumed(config, environ)
    topology = resolve_training_topology(
        config,
        environ=environ,
        num_cuda_devices=num_cuda_devices(),
        has_mps=has_mps(),
        num_cores=this_machine().num_cores,
    )
    try:
        require_writable(config)
    except OSError as error:
        raise ConfigError(f"output_dir or metrics_path: {error.strerror}: {error.filename}") from None
    of_env: list[str] = []
    env = describe_env(**config.env_arguments, actor_timeout_seconds=config.actor_timeout_seconds, say=of_env.append)
    require_known_to_actors(config.env_arguments["env_id"], config.env_backend)
    kind = learner_kind(config.learner)
    kind.require(env, config, device=topology.device)
    network = kind.network(config, env)
    _require_effect(config, env, network)
    if ":" in config.policy_backend:  # its mistakes are found here and not in every actor
        build_policy(config.policy_backend, network, env, num_envs=1)
    pretrained = kind.pretrained(config, environ)
    if resumed is not None:
        require_fit(resumed, config, network)
        notes = (*notes, *limit_change(EnvSpec(**with_tuples(resumed.content["env"])), env))
    advice = [*kind.notes(config, topology.device), *machine_advice(topology), *image_advice(config, env)]
    advice += backend_notes(**config.env_arguments)
    advice += [*env.notes, *filter(None, [env.unsaved])]
    if config.init_from is None and resumed is None:
        advice += action_advice(config, env)
    plan = Plan(
        config=config,
        topology=topology,
        env=env,
        network=network,
        num_threads=learner_threads(config, topology, environ),
        pretrained=pretrained,
        num_rounds=config.num_rounds(max(1, topology.num_learners), **_done(resumed)),
        resumed=resumed,
        notes=(*topology.notes, *of_env, *advice, *notes),
    )
    _require_memory(plan)
    _require_instances(plan)
    return plan if config.init_from is None else replace(plan, notes=(*plan.notes, *plan.starting_point().notes))


def _require_effect(config: Config, env: EnvSpec, network: NetworkSpec) -> None:
    """Raises ConfigError where a person set what does nothing with this environment, not where a run has written it."""
    default, place = GENERAL["init_log_std"].default, config.origins["init_log_std"]
    if name_of_run(Path(place.rpartition(":")[0]).parent):
        return
    if network.distribution.num_log_std or not config.is_named("init_log_std") or config.init_log_std == default:
        return
    raise ConfigError(
        f"{place}: init_log_std has no effect, as {env.env_id} has {env.action.describe()} "
        "actions, which have no standard deviation; remove it"
    )


def _done(resumed: Resumed | None) -> dict[str, int]:
    """Rounds and environment steps before this session."""
    content = {"round": 0, "env_steps": 0} if resumed is None else resumed.content
    return {"done": content["round"], "env_steps": content["env_steps"]}


def _require_memory(plan: Plan) -> None:
    size, memory = block_bytes(plan.block_shapes), this_machine().memory_bytes
    if size > memory:
        raise ConfigError(
            f"a rollout of each learner needs {size / 2**30:,.1f} GiB, this machine has {memory / 2**30:.1f} GiB; "
            "lower rollout_length, num_envs or hidden_sizes"
        )


def _require_instances(plan: Plan) -> None:
    limit, needed = plan.config.max_env_instances, plan.num_training_instances
    if limit is not None and needed > limit:
        raise ConfigError(
            f"max_env_instances is {limit}, training needs {needed} environments; lower num_actors or envs_per_actor"
        )


def learner_threads(config: Config, topology: TrainingTopology, environ: Mapping[str, str]) -> int:
    """Cores that this learner's update may use: the setting, or OMP_NUM_THREADS of a person, or its share of the cores.

    torchrun sets OMP_NUM_THREADS to 1 on its own, so under torchrun only the setting counts.
    """
    if config.learner_threads is not None:
        return config.learner_threads
    if "OMP_NUM_THREADS" in environ and "LOCAL_WORLD_SIZE" not in environ:
        first = environ["OMP_NUM_THREADS"].split(",")[0].strip()  # OpenMP allows a list, one for each level
        return max(1, int(first)) if first.isdigit() else max(1, this_machine().num_cores // topology.num_learners)
    return max(1, this_machine().num_cores * topology.num_nodes // topology.num_learners)


def actors_text(topology: TrainingTopology) -> str:
    """Actors of a learner and their environments, such as "3 for each learner x 6, 5, 5 environments = 16"."""
    sizes = topology.envs_of_actors
    each = ", ".join(map(str, sizes[:1] if len({*sizes}) == 1 else sizes))
    return f"{len(sizes)} for each learner x {each} environments = {topology.num_envs} environments"
