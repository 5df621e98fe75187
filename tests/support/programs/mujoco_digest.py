"""Prints a digest of trajectories, without the profiler clock if a word says so, and whether the clock is there."""

import ctypes
import hashlib
import sys
from pathlib import Path

import mujoco
import numpy as np

from ddp_ppo.envs.build import make_batch_env

digest, rng = hashlib.sha256(), np.random.default_rng(0)
for task in ("HalfCheetah-v5", "Ant-v5"):
    env = make_batch_env(task, 3, remove_profiler_clock="remove" in sys.argv)
    env.reset([1, 2, 3])
    for _ in range(200):
        step = env.step(rng.uniform(-1, 1, (3, env.spec.action_size)).astype(np.float32))
        digest.update(step.obs.tobytes() + step.reward.tobytes())
path = next(Path(mujoco.__file__).parent.glob("libmujoco.so*"), None)
clock = path and ctypes.c_void_p.in_dll(ctypes.CDLL(str(path)), "mjcb_time").value
print(digest.hexdigest(), clock is not None)
