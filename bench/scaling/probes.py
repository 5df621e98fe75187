"""Measures one part of a round at a time, with the product's own code: what the stages of a run do not tell apart.

Run by torchrun with two processes it measures the collectives and prints one JSON object; everything else is called
by `bench/scaling.py`. Seconds are of wall time where one process works alone, else CPU seconds of the learner.

Shapes: T rollout_length, K environments of an actor, D observation size, P parameters.
"""

from __future__ import annotations

import json
import os
import pickle
import statistics
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing import active_children
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

CONFIG = Path(__file__).resolve().parents[2] / "configs" / "half_cheetah.yaml"
NUM_ENVS = (1, 2, 4, 8, 16, 32)  # of an actor
NUM_FLOATS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)  # of a vector that is averaged or published
NUM_LEARNERS = (1, 8, 128)  # whose rows one learner merges
_NUM_STEPS = 240
_NUM_ROLLOUTS = 4  # shorter than an episode all together: no restart
_NUM_ROUNDS = 30


def prepared(*words: str) -> Any:
    """The plan of one learner on the CPU with these settings."""
    from ddp_ppo.config.load import load_config
    from ddp_ppo.training.plan import prepare

    return prepare(load_config(CONFIG, ["device=cpu", *words]), environ={})


def shared_block(plan: Any) -> Any:
    """The shared memory of a learner before its first round: random parameters, no statistics."""
    from ddp_ppo.policies.network import initial_parameters
    from ddp_ppo.sampling.shared_memory import SharedBlock

    block = SharedBlock(plan.block_shapes)
    block.arrays["parameters"][:] = initial_parameters(plan.network, np.random.default_rng(0), -0.5)
    block.arrays["obs_var"][:] = 1.0
    block.arrays["reward_scale"][:] = 1.0
    return block


def actor_step(envs_per_actor: int) -> dict[str, float]:
    """Seconds of an actor's step with K environments: a rollout's whole loop, and of it MuJoCo and the policy alone.

    These two go through the same controls and observations again, from the same states. The quickest rollout counts.
    """
    import gymnasium

    from ddp_ppo.envs.mujoco.physics import BatchPhysics
    from ddp_ppo.policies.numpy_policy import NumpyPolicy
    from ddp_ppo.sampling.actor import Actor
    from ddp_ppo.training.sampler import actor_jobs

    plan = prepared("num_actors=1", f"envs_per_actor={envs_per_actor}", f"rollout_length={_NUM_STEPS}")
    block = shared_block(plan)
    actor = Actor(actor_jobs(plan, block)[0])
    task: Any = gymnasium.make(plan.env.env_id).unwrapped
    physics = BatchPhysics(task.model, envs_per_actor, task.frame_skip)
    policy = NumpyPolicy(plan.network, plan.env, envs_per_actor, _NUM_STEPS)
    policy.load(block.arrays["parameters"], None)
    seconds: dict[str, list[float]] = {"loop": [], "physics": [], "inference": []}
    for i in range(_NUM_ROLLOUTS):
        state = actor.save()["env"]
        seconds["loop"].append(actor.sample(i).sample_seconds)
        rows, act = list(block.arrays["obs"][:-1]), block.arrays["act"].copy()
        controls = list(act.clip(plan.env.action_low, plan.env.action_high))
        physics.restore(state["physics"])
        policy.begin(np.random.default_rng(i))
        start = time.perf_counter()
        for control in controls:
            physics.ctrl[...] = control
            physics.step()
        stepped = time.perf_counter()
        for step, obs in enumerate(rows):
            policy.act(step, obs, act[step])
        seconds["physics"].append(stepped - start)
        seconds["inference"].append(time.perf_counter() - stepped)
    for one in (actor, task):
        one.close()
    steps = {name: min(values) / _NUM_STEPS for name, values in seconds.items()}
    return {"envs_per_actor": envs_per_actor, **steps}


def learner_side(num_actors: int) -> dict[str, float]:
    """CPU seconds of a learner in a round for its actors: commands, answers, merged statistics; memory of an actor."""
    from torch import device

    from ddp_ppo.distributed.group import LearnerGroup
    from ddp_ppo.learners.ppo.learner import PPO, fresh
    from ddp_ppo.maths.moments import empty_rms_state
    from ddp_ppo.runs.metric_table import METRICS
    from ddp_ppo.sampling.actor_pool import ActorPool
    from ddp_ppo.sampling.rollout import Rollout
    from ddp_ppo.training.sampler import actor_jobs
    from ddp_ppo.training.sync import Statistics, Sync

    plan = prepared(
        f"num_actors={num_actors}", "envs_per_actor=8", "rollout_length=16", "learner_threads=1", "num_epochs=1"
    )
    block = shared_block(plan)
    learner = PPO(plan.config, plan.network, fresh(block.arrays["parameters"].copy()), device=device("cpu"))
    with ActorPool(actor_jobs(plan, block), timeout_seconds=120.0) as pool:
        pool.wait_ready()
        reports = pool.sample(0)
        start = time.process_time()
        for i in range(_NUM_ROUNDS):
            reports = pool.sample(i + 1)
        handshake = (time.process_time() - start) / _NUM_ROUNDS
        memory = statistics.median(own_bytes(child.pid) for child in active_children())
        answer = pickle.dumps(("done", reports[0]))
    rollout = Rollout(block.arrays)
    rollout.fill()
    _, metrics = learner.train_step(rollout)
    history = Statistics(empty_rms_state(plan.network.obs_size), empty_rms_state(1))
    learners = LearnerGroup(plan.topology, timeout_seconds=60.0)
    table = (*METRICS, *plan.kind.metrics)
    sync = Sync(learners, learner, table, interval=1, num_rounds=_NUM_ROUNDS)
    merge = seconds_of(
        lambda: sync.after_round(1, history, reports=reports, metrics=metrics, stop_signal=None), _NUM_ROUNDS
    )
    return {
        "num_actors": num_actors,
        "handshake": handshake,
        "merge": merge,
        "actor_bytes": memory,
        "answer_bytes": len(answer),
        "num_metrics": len(metrics),
    }


def own_bytes(pid: int | None) -> int:
    """Memory of a process, pages that it shares with others divided among them; 0 where the system does not tell."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def rows_of_learners(num_learners: int, num_metrics: int) -> dict[str, float]:
    """Seconds that a learner needs for the rows of all: metrics averaged, two statistics merged."""
    from ddp_ppo.distributed.group import average_metrics
    from ddp_ppo.maths.moments import RmsState, merge_rms_states

    def state(size: int) -> RmsState:
        return {"mean": np.zeros(size), "var": np.ones(size), "count": 1.0}

    metrics = [{f"metric{i}": float(i) for i in range(num_metrics)}] * num_learners
    states = [[state(size)] * (num_learners + 1) for size in (17, 1)]

    def merge() -> None:
        average_metrics(metrics, [1.0] * num_learners)
        for one in states:
            merge_rms_states(one)

    return {"num_learners": num_learners, "seconds": seconds_of(merge, _NUM_ROUNDS)}


def network_sizes() -> dict[str, int]:
    """What the sizes of messages follow from."""
    network = prepared().network
    return {"obs_size": network.obs_size, "num_parameters": network.num_parameters}


def publishing(num_floats: int) -> dict[str, float]:
    """Seconds to publish a parameter vector (checked, and copied to shared memory), and those of its checksum."""
    from ddp_ppo.sampling.shared_memory import SharedBlock

    block = SharedBlock({"parameters": ("float32", (num_floats,))})
    source = np.random.default_rng(0).standard_normal(num_floats, np.float32)

    def publish() -> None:
        assert np.isfinite(source).all()
        block.arrays["parameters"][:] = source

    repeats = max(5, min(_NUM_ROUNDS, 30_000_000 // num_floats))
    result = {
        "num_bytes": 4 * num_floats,
        "publish": seconds_of(publish, repeats),
        "checksum": seconds_of(lambda: zlib.crc32(source.tobytes()), repeats),
    }
    block.close()
    return result


def seconds_of(work: Callable[[], object], repeats: int) -> float:
    """Median seconds of a call, after one that does not count."""
    work()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def collectives(num_floats: Sequence[int]) -> list[dict[str, float]]:
    """Seconds of averaging and of broadcasting a vector, for each size; called in every process of torchrun."""
    import torch

    from ddp_ppo.config.load import load_config
    from ddp_ppo.distributed.group import LearnerGroup
    from ddp_ppo.distributed.topology import resolve_training_topology

    world_size = os.environ["WORLD_SIZE"]
    config = load_config(CONFIG, ["device=cpu", f"num_gpus={world_size}", f"num_actors={world_size}"])
    topology = resolve_training_topology(config, environ=os.environ, num_cuda_devices=0, has_mps=False)
    torch.set_num_threads(1)
    rows = []
    with LearnerGroup(topology, timeout_seconds=60.0) as learners:
        for number in num_floats:
            vector = torch.ones(number)
            repeats = max(10, min(200, 20_000_000 // number))
            rows.append(
                {
                    "num_bytes": 4 * number,
                    "all_reduce": seconds_of(partial(learners.average, vector), repeats),
                    "broadcast": seconds_of(partial(learners.broadcast, [vector]), repeats),
                }
            )
    return rows if topology.rank == 0 else []


if __name__ == "__main__":
    from ddp_ppo.processes.lifetime import die_with_parent

    die_with_parent()
    if measured := collectives(NUM_FLOATS):
        print(json.dumps({"collectives": measured}))
