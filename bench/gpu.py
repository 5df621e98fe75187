#!/usr/bin/env python3
"""Checks and measures the update on a CUDA device; made to take less than five minutes.

    python bench/gpu.py

Runs the device's tests, compares 50 mini-batches with the CPU's, then times mini-batches as single kernels and as a
graph, copies from shared memory, rounds of a learner and, where Gymnasium and MuJoCo are installed, whole trainings.
The last line is one JSON object. Exits 1 where a check fails and 2 where there is no CUDA device.
"""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
import torch  # noqa: E402

from ddp_ppo.config.load import load_config  # noqa: E402
from ddp_ppo.learners.ppo.learner import PPO, fresh  # noqa: E402
from ddp_ppo.learners.ppo.updates.cuda_graphs import captured_on  # noqa: E402
from ddp_ppo.policies.network import NetworkSpec, initial_parameters  # noqa: E402
from ddp_ppo.sampling.rollout import Rollout, rollout_shapes  # noqa: E402
from ddp_ppo.sampling.shared_memory import SharedBlock, page_locked  # noqa: E402
from tests.support.updates import CPU, CUDA, TOLERANCE, TrainedPolicy, samples  # noqa: E402

NETWORKS = {"64x64": NetworkSpec(17, "gaussian", 6, (64, 64), "tanh")}
NETWORKS["256x256"] = NetworkSpec(17, "gaussian", 6, (256, 256), "tanh")
MINIBATCH_SIZES = (64, 1024, 16384)
NUM_MINIBATCHES = 32  # in a timed epoch
CHILD_SECONDS = 90  # longest wait for a process
COPY_BYTES = 2**28
TRAININGS = {  # words of a training, each 65,536 samples a round
    "cuda": ["device=cuda", "minibatch_size=4096"],
    "cuda eager": ["device=cuda", "minibatch_size=4096", "update_backend=torch"],
    "cpu": ["device=cpu", "minibatch_size=4096"],
}
ROUND = ["envs_per_actor=16", "rollout_length=512", "num_actors=8"]
Results = dict[str, Any]


def median_seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """Of some repeats after a first one that does not count; waits for the device each time."""
    seconds = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        work()
        torch.cuda.synchronize(CUDA)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[1:])


def tests() -> Results:
    """The tests of the CUDA module, in a process of their own."""
    command = [sys.executable, "-m", "unittest", "-q", "tests.learners.ppo.updates.test_cuda_graphs"]
    command += ["tests.sampling.test_shared_memory"]
    child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=CHILD_SECONDS)
    print(child.stderr.strip(), flush=True)
    return {"tests": child.returncode == 0}


def agreement() -> Results:
    """Largest difference of a parameter after 50 mini-batches."""
    table = {}
    for name, network in NETWORKS.items():
        for size in MINIBATCH_SIZES[:2]:
            trials = [
                TrainedPolicy(network, CUDA, accelerate=captured_on(CUDA)),
                TrainedPolicy(network, CUDA),
                TrainedPolicy(network, CPU),
            ]
            for trial in trials:
                trial.train(num_samples=5 * size, minibatch_size=size, num_epochs=10)
            graph, eager, cpu = (trial.policy.flat.data.cpu() for trial in trials)
            differences = {
                "graph_eager": float((graph - eager).abs().max()),
                "graph_cpu": float((graph - cpu).abs().max()),
            }
            table[f"{name} {size}"] = differences
            print(f"{name} mini-batch {size}: largest difference after 50 mini-batches: {differences}", flush=True)
    is_close = all(difference <= TOLERANCE for row in table.values() for difference in row.values())
    return {"agreement": table, "is_close": is_close}


def minibatches() -> Results:
    """Microseconds of a mini-batch, gathering and reports included."""
    table = {}
    for name, network in NETWORKS.items():
        for size in MINIBATCH_SIZES:
            num_samples = size * NUM_MINIBATCHES
            order = np.random.default_rng(0).permutation(num_samples)
            row = {}
            for how, arguments in (("eager", {}), ("graph", {"accelerate": captured_on(CUDA)})):
                trial = TrainedPolicy(network, CUDA, **arguments)
                trial.update.load(samples(trial.policy, num_samples))
                seconds = median_seconds(partial(trial.update.epoch, order, size, 3e-4))
                row[how] = 1e6 * seconds / NUM_MINIBATCHES
            table[f"{name} {size}"] = row
            print(f"{name} mini-batch {size}: eager {row['eager']:.0f} us, graph {row['graph']:.0f} us", flush=True)
    return {"minibatch_us": table}


def copies() -> Results:
    """Gigabytes a second from shared memory to the device."""
    block = SharedBlock({"data": ("uint8", (COPY_BYTES,))})
    block.arrays["data"][:] = 1
    source, target = torch.from_numpy(block.arrays["data"]), torch.empty(COPY_BYTES, dtype=torch.uint8, device=CUDA)

    def speed() -> float:
        return COPY_BYTES / 1e9 / median_seconds(lambda: target.copy_(source, non_blocking=True))

    result = {"pageable": speed()}
    told: list[str] = []
    start = time.perf_counter()
    with page_locked(block.memory, str(CUDA), told.append):
        result["lock_seconds"] = time.perf_counter() - start
        result["is_pinned"] = source.is_pinned()
        result["page_locked"] = speed()
    block.close()
    print(*told, f"copies: {result}", sep="\n", flush=True)
    return {"copy_gb_per_second": result}


def rounds() -> Results:
    """Seconds of a learner's rounds of 65,536 samples: copying, 10 epochs of 16 mini-batches, metrics."""
    table = {}
    network = NETWORKS["64x64"]
    for name, words in TRAININGS.items():
        config = load_config(ROOT / "configs" / "half_cheetah.yaml", [*words, *ROUND])
        num_envs = config.envs_per_learner
        shapes = rollout_shapes(PPO.rollout_fields(network), config.rollout_length, num_envs)
        block, generator = SharedBlock(shapes), np.random.default_rng(0)
        for array in block.arrays.values():
            if array.dtype.kind == "f":
                array[...] = generator.standard_normal(array.shape)
        block.arrays["logp"][...] -= 8.0
        rollout, device = Rollout(block.arrays), CPU if name == "cpu" else CUDA
        parameters = initial_parameters(network, generator, -0.5)
        learner = PPO(config, network, fresh(parameters), device=device)

        with page_locked(block.memory, str(device), print):
            table[name] = median_seconds(partial(train, learner, rollout), repeats=3)
        block.close()
        print(f"round by {name}: {table[name]:.3f} s", flush=True)
    return {"round_seconds": table}


def train(learner: PPO, rollout: Rollout) -> None:
    """One round; its data stays as it is."""
    rollout.fill()
    learner.train_step(rollout)


def trainings() -> Results:
    """Steps a second of whole trainings, the median of their rounds but for the first three and the last."""
    missing = [name for name in ("gymnasium", "mujoco") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"no trainings: {', '.join(missing)} not installed", flush=True)
        return {"steps_per_second": None}
    table = {}
    for name, words in TRAININGS.items():
        with tempfile.TemporaryDirectory() as folder:
            rows = Path(folder, "metrics.csv")
            words = [*words, *ROUND, "total_env_steps=655360", "eval_interval=0", "eval_episodes=1"]
            command = [sys.executable, str(ROOT / "train.py"), str(ROOT / "configs" / "half_cheetah.yaml"), *words]
            command += [f"output_dir={folder}", f"metrics_path={rows}"]
            child = subprocess.run(command, capture_output=True, text=True, timeout=CHILD_SECONDS)
            if child.returncode:
                print(child.stdout, child.stderr, sep="\n", flush=True)
                return {"steps_per_second": table, "has_trained": False}
            with rows.open(newline="") as file:
                kept = [float(row["time/steps_per_second"]) for row in csv.DictReader(file)][3:-1]
        table[name] = statistics.median(kept)
        print(f"training by {name}: {table[name]:,.0f} steps/s", flush=True)
    return {"steps_per_second": table, "has_trained": True}


def main() -> int:
    """Checks, measures, and prints the JSON object."""
    if not torch.cuda.is_available():
        print(f"no CUDA device is visible to torch {torch.__version__}: nothing to check or measure", flush=True)
        return 2
    start = time.perf_counter()
    results: Results = {"device": torch.cuda.get_device_name(CUDA), "torch": torch.__version__, "cores": os.cpu_count()}
    print(results, flush=True)
    for part in (tests, agreement, copies, minibatches, rounds, trainings):
        results |= part()
    results["seconds"] = time.perf_counter() - start
    print(json.dumps(results))
    return int(not (results["tests"] and results["is_close"] and results.get("has_trained", True)))


if __name__ == "__main__":
    sys.exit(main())
