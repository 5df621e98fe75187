"""Lets four simulations explode twice, which MuJoCo warns of."""

import numpy as np

from ddp_ppo.envs.build import make_batch_env

env = make_batch_env("Hopper-v5", 4)
for _ in range(2):
    env.reset(range(4))
    env._physics.field("qvel")[:] = 1e12
    env.step(np.zeros((4, 3), np.float32))
make_batch_env("HalfCheetah-v5", 3)
