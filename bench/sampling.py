#!/usr/bin/env python3
"""Sampling with the policy against the physics alone: steps per second of CPU time, one process.

    python bench/sampling.py --tasks half_cheetah,hopper --envs 8,16

A whole rollout of an actor (stepping, acting, resets, values, log-probabilities, advantages, statistics) against a C
loop of mj_step that goes through the very same controls and restarts (raw_mj_step.c, built with gcc on demand); the
profiler clock is removed in both. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
TASKS = [
    "half_cheetah",
    "hopper",
    "walker2d",
    "ant",
    "humanoid",
    "humanoid_standup",
    "swimmer",
    "reacher",
    "pusher",
    "inverted_pendulum",
    "inverted_double_pendulum",
]


def raw_library() -> ctypes.CDLL:
    """Builds and loads the C loop."""
    import mujoco

    package = Path(mujoco.__file__).parent
    library = next(package.glob("libmujoco.so.*"))
    target = Path(tempfile.mkdtemp()) / "raw_mj_step.so"
    source = ROOT / "bench/raw_mj_step.c"
    command = [
        "gcc",
        "-O2",
        "-shared",
        "-fPIC",
        f"-I{package / 'include'}",
        str(source),
        str(library),
        "-o",
        str(target),
    ]
    subprocess.run([*command, f"-Wl,-rpath,{package}"], check=True)
    return ctypes.CDLL(str(target))


class Recording:
    """One actor, and what its physics was given in the last rollout."""

    def __init__(self, config_path: Path, num_envs: int) -> None:
        import numpy as np

        from ddp_ppo.config.load import load_config
        from ddp_ppo.policies.network import initial_parameters
        from ddp_ppo.sampling.actor import Actor
        from ddp_ppo.sampling.shared_memory import SharedBlock
        from ddp_ppo.training.plan import prepare
        from ddp_ppo.training.sampler import actor_jobs

        words = [f"envs_per_actor={num_envs}", f"rollout_length={4096 // num_envs}", "num_actors=1"]
        self.plan = prepare(load_config(config_path, words), environ={})
        self.block = SharedBlock(self.plan.block_shapes)
        parameters = initial_parameters(self.plan.network, np.random.default_rng(0), -0.5)
        self.block.arrays["parameters"][:] = parameters
        self.block.arrays["obs_var"][:] = 1.0
        self.block.arrays["reward_scale"][:] = 1.0
        self.actor = Actor(actor_jobs(self.plan, self.block)[0])
        self.env: Any = self.actor._env
        self.restarts: list[tuple[int, Any, Any, Any]] = []
        self._round = 0

    def sample(self) -> float:
        """CPU seconds of one rollout."""
        self._round += 1
        start = time.process_time()
        self.actor.sample(self._round)
        return time.process_time() - start

    def replay(self, library: ctypes.CDLL) -> tuple[float, float]:
        """CPU seconds of another rollout, and of the same steps in C."""
        import mujoco
        import numpy as np
        from numpy.ctypeslib import as_ctypes

        physics, num_steps = self.env._physics, self.plan.config.rollout_length
        before, first = physics.save(), self.env._num_steps
        restart = physics.restart
        restarts: list[tuple[int, Any, Any, Any]] = []

        def remember(ids: Any, starts: Any) -> None:
            restarts.append((self.env._num_steps - first, ids.copy(), *map(np.stack, zip(*starts, strict=True))))
            restart(ids, starts)

        physics.restart = remember
        seconds = self.sample()
        physics.restart = restart
        env = self.plan.env
        actions = self.block.arrays["act"].clip(env.action_low, env.action_high).astype(np.float64)
        raw = 0.0
        model, frame_skip = self.model()
        data = mujoco.MjData(model)
        for i in range(self.plan.topology.num_envs):
            mujoco.mj_setState(model, data, before[i], mujoco.mjtState.mjSTATE_INTEGRATION)
            index = np.full(num_steps + 1, -1, np.int32)
            rows = []
            for step, ids, qpos, qvel in restarts:
                for n in np.flatnonzero(ids == i):
                    index[step] = len(rows)
                    rows.append((qpos[n], qvel[n]))
            qpos, qvel = (np.array([row[k] for row in rows] or [np.zeros(1)]) for k in (0, 1))
            ctrl = np.ascontiguousarray(actions[:, i])
            arrays = [as_ctypes(np.ascontiguousarray(array)) for array in (ctrl, index, qpos, qvel)]
            contact = int(type(physics).__name__ == "LoopPhysics")
            raw += library.run(
                ctypes.c_void_p(model._address), ctypes.c_void_p(data._address), num_steps, frame_skip, *arrays, contact
            )
        return seconds, raw

    def model(self) -> tuple[Any, int]:
        """The task's own model and frame skip."""
        import gymnasium

        env: Any = gymnasium.make(self.plan.env.env_id).unwrapped
        return env.model, env.frame_skip


def main() -> int:
    """Measures in alternation and prints the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--envs", default="8,16")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    from ddp_ppo.envs.mujoco.profiler_clock import remove_profiler_clock

    remove_profiler_clock()
    library = raw_library()
    library.run.restype = ctypes.c_double
    table = {}
    for task in options.tasks.split(","):
        config = ROOT / "configs" / f"{task}.yaml"
        for num_envs in map(int, options.envs.split(",")):
            recording = Recording(config, num_envs)
            recording.sample()
            pairs = [recording.replay(library) for _ in range(options.repeats)]
            shares = [raw / seconds for seconds, raw in pairs]
            ours, raw = (recording.plan.num_samples / min(pair[k] for pair in pairs) for k in (0, 1))
            shares.sort()
            table[f"{task} K={num_envs}"] = [shares[0], shares[len(shares) // 2], shares[-1]]
            print(
                f"{task:26} K={num_envs:<3} {ours:9,.0f} of {raw:9,.0f} steps/CPU-s: "
                f"{shares[0]:.0%} / {shares[len(shares) // 2]:.0%} / {shares[-1]:.0%} (min/median/max)",
                flush=True,
            )
    print(json.dumps({"share_of_raw_mj_step": table}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
