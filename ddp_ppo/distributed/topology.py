"""Who does what in a run: which process is which learner, on which device, with how many actors.

A pure function of the settings, torchrun's environment variables and the machine's devices; it starts nothing, prints
nothing and does not import torch. Every node is taken to have as many GPUs and processes as this one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from ddp_ppo.config.settings import Config, ConfigError
from ddp_ppo.distributed.launch import launch_line


@dataclass(frozen=True, kw_only=True)
class TrainingTopology:
    """The part of one process in the run.

    Attributes:
        rank: learner number, 0 .. num_learners-1; torchrun's rank for a surplus process.
        local_rank: number of this process on its node.
        num_learners: learners of the whole run.
        device: what this learner computes on, such as "cuda:1", "cpu" or "mps".
        backend: of torch.distributed; "none" for a single learner, which needs no process group.
        envs_of_actors: environments of each actor of this learner, in their order; empty for a surplus process.
        is_surplus: there is no learner for this process: it says so and exits before the process group forms.
        num_nodes: nodes that torchrun runs on.
        notes: remarks for the user; a surplus process prints its own, of the learners only rank 0 prints.
    """

    rank: int
    local_rank: int
    num_learners: int
    device: str
    backend: Literal["nccl", "gloo", "none"]
    envs_of_actors: tuple[int, ...]
    is_surplus: bool = False
    num_nodes: int = 1
    notes: tuple[str, ...] = ()

    @property
    def num_actors(self) -> int:
        """Actors of this learner."""
        return len(self.envs_of_actors)

    @property
    def num_envs(self) -> int:
        """B, environments of this learner."""
        return sum(self.envs_of_actors)

    @property
    def slices(self) -> list[slice]:
        """The environments of each actor among those of this learner."""
        ends = accumulate(self.envs_of_actors)
        return [slice(end - number, end) for end, number in zip(ends, self.envs_of_actors, strict=True)]


@dataclass(frozen=True, kw_only=True)
class _Process:
    """Place of this process among those that torchrun started; the defaults are plain python's."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int = 1
    group_rank: int = 0
    has_torchrun: bool = False


def resolve_training_topology(
    config: Config, *, environ: Mapping[str, str], num_cuda_devices: int, has_mps: bool, num_cores: int = 1
) -> TrainingTopology:
    """Decides the part of this process; every process of a run decides alike, without communication.

    The number of actors alone may differ between nodes: results do not depend on it.

    Args:
        config: the settings; `num_gpus` and `num_actors` are totals of the run.
        environ: like os.environ; RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE and GROUP_RANK are read.
        num_cuda_devices: GPUs that this process sees.
        has_mps: whether Apple's GPU is usable.
        num_cores: cores of this node that the run may use, which decide with `num_actors: auto`.

    Raises:
        ConfigError: the device does not exist here, or the environment variables contradict each other.
    """
    process = _read_process(environ)
    kind = _device_kind(config, num_cuda_devices, has_mps)
    num_nodes = process.world_size // process.local_world_size
    slots = {"cuda": min(process.local_world_size, num_cuda_devices), "mps": 1, "cpu": 1}[kind]  # learners of a node
    if config.device == "cpu":  # asked for: several learners may share the CPUs
        slots = process.local_world_size
    is_single = kind != "cuda" and config.device != "cpu"  # a stopgap for a missing GPU, once in the whole run
    num_learners = min(config.num_gpus, 1 if is_single else slots * num_nodes)
    rank = process.group_rank * slots + process.local_rank
    if process.local_rank >= slots or rank >= num_learners:
        note = f"rank {process.rank} is surplus: the run has {_count(num_learners, 'learner')}; this process ends"
        return TrainingTopology(
            rank=process.rank,
            local_rank=process.local_rank,
            num_learners=num_learners,
            device="cpu",
            backend="none",
            envs_of_actors=(),
            is_surplus=True,
            num_nodes=num_nodes,
            notes=(note,),
        )
    num_neighbours = min(slots, num_learners - process.group_rank * slots)  # learners of this node
    return TrainingTopology(
        rank=rank,
        local_rank=process.local_rank,
        num_learners=num_learners,
        device=f"cuda:{process.local_rank}" if kind == "cuda" else kind,
        backend="none" if num_learners == 1 else "nccl" if kind == "cuda" else "gloo",
        envs_of_actors=shares(config, max(1, num_cores // num_neighbours)),
        num_nodes=num_nodes,
        notes=_notes(config, process, kind, num_learners, num_cuda_devices),
    )


def shares(config: Config, num_cores: int) -> tuple[int, ...]:
    """How many environments each actor of a learner steps; the first ones take what does not divide equally.

    With auto as few actors as give none of them more than with one actor for each core.
    """
    num_envs = config.envs_per_learner
    num_actors = config.actors_per_learner or math.ceil(num_envs / math.ceil(num_envs / num_cores))
    each, left = divmod(num_envs, num_actors)
    return (each + 1,) * left + (each,) * (num_actors - left)


def _device_kind(config: Config, num_cuda_devices: int, has_mps: bool) -> str:
    usable = {"cuda": num_cuda_devices > 0, "mps": has_mps, "cpu": True}
    if config.device == "auto":
        return next(kind for kind, is_usable in usable.items() if is_usable)
    if not usable[config.device]:
        here = ", ".join(kind for kind, is_usable in usable.items() if is_usable)
        place = config.origins["device"]
        raise ConfigError(f"{place}: device: got {config.device}, which this machine lacks; allowed here: auto, {here}")
    return config.device


def _read_process(environ: Mapping[str, str]) -> _Process:
    if "RANK" not in environ and "WORLD_SIZE" not in environ:
        return _Process()
    for name, other in (("RANK", "WORLD_SIZE"), ("WORLD_SIZE", "RANK")):
        if name not in environ:
            raise ConfigError(f"environment: {other} is set without {name}; start with torchrun, or unset both")
    rank = _integer(environ, "RANK", 0)
    world_size = _integer(environ, "WORLD_SIZE", 1)
    local_world_size = _integer(environ, "LOCAL_WORLD_SIZE", world_size)
    if local_world_size < 1 or world_size < 1 or world_size % local_world_size:
        raise ConfigError(
            f"environment: WORLD_SIZE {world_size} is not a multiple of LOCAL_WORLD_SIZE {local_world_size}; "
            "start equally many processes on every node"
        )
    local_rank = _integer(environ, "LOCAL_RANK", rank % local_world_size)
    group_rank = _integer(environ, "GROUP_RANK", rank // local_world_size)
    is_inside = 0 <= rank < world_size and 0 <= local_rank < local_world_size
    if not is_inside or rank != group_rank * local_world_size + local_rank:
        raise ConfigError(
            f"environment: RANK {rank}, WORLD_SIZE {world_size}, LOCAL_RANK {local_rank}, LOCAL_WORLD_SIZE "
            f"{local_world_size} and GROUP_RANK {group_rank} contradict each other; start with torchrun"
        )
    return _Process(
        rank=rank,
        world_size=world_size,
        local_rank=local_rank,
        local_world_size=local_world_size,
        group_rank=group_rank,
        has_torchrun=True,
    )


def _integer(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, str(default))
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"environment: {name}: got {text!r}; allowed: a whole number") from None


def _notes(config: Config, process: _Process, kind: str, num_learners: int, num_cuda_devices: int) -> tuple[str, ...]:
    """One warning where there are fewer learners than asked, one remark where torchrun started more processes."""
    notes = []
    if num_learners < config.num_gpus:
        notes.append(
            f"num_gpus asks for {config.num_gpus} learners, but this run has {num_learners} on {kind}"
            f"{_actors_left(config, num_learners)}: {_reason(config, process, kind, num_cuda_devices)}"
        )
    if process.world_size > num_learners:
        notes.append(
            f"torchrun started {process.world_size} processes for {_count(num_learners, 'learner')}: "
            f"{process.world_size - num_learners} of them end at once"
        )
    return tuple(notes)


def _actors_left(config: Config, num_learners: int) -> str:
    """How many of the actors that were asked for there are."""
    actors = config.actors_per_learner
    if actors is None:
        return ""
    total = f"{num_learners * actors} of num_actors: {config.num_gpus * actors}"
    return f" with {_count(actors, 'actor')} each ({total})"


def _reason(config: Config, process: _Process, kind: str, num_cuda_devices: int) -> str:
    """Why there are fewer learners than asked, and what would start more."""
    if kind != "cuda" and config.device != "cpu":
        line = launch_line(config.num_gpus, (*config.words, "device=cpu") if config.words else ())
        return f"no CUDA GPU is visible; several learners on CPUs (device=cpu) start with: {line}"
    most = config.num_gpus if kind == "cpu" else min(config.num_gpus, num_cuda_devices)
    if not process.has_torchrun and most > 1:
        return f"start {most} with: {launch_line(most, config.words)}"
    if kind == "cuda" and num_cuda_devices <= process.local_world_size:
        return f"{_count(num_cuda_devices, 'GPU')} visible on each node"
    return f"torchrun started {_count(process.world_size, 'process')}; raise --nproc_per_node or --nnodes"


def _count(number: int, noun: str) -> str:
    plural = {"process": "processes"}.get(noun, f"{noun}s")
    return f"{number} {noun if number == 1 else plural}"
