"""MuJoCo tasks with faults, registered as `tests.long.mujoco_environments:BrokenState-v0` and so on."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium.envs.mujoco.ant_v5 import AntEnv
from gymnasium.envs.mujoco.half_cheetah_v5 import HalfCheetahEnv

from tests.long.environments import RANK

JOINT = "rooty"  # of HalfCheetah's third coordinate, the pitch


class BrokenState(HalfCheetahEnv):
    """HalfCheetah whose joint `rooty` is NaN after `at` simulated steps, on one rank."""

    def __init__(self, rank=0, at=40) -> None:
        super().__init__()
        self.at = at if rank == RANK else -1
        self.num_simulated = 0

    def do_simulation(self, ctrl, n_frames) -> None:
        super().do_simulation(ctrl, n_frames)
        self.num_simulated += 1
        if self.num_simulated == self.at:
            self.data.qpos[2] = np.nan


class WildAnt(AntEnv):
    """Ant with a million times the force."""

    def do_simulation(self, ctrl, n_frames) -> None:
        super().do_simulation(np.asarray(ctrl) * 1e6, n_frames)


class Sunk(HalfCheetahEnv):
    """HalfCheetah that starts half a metre deep in the floor."""

    def reset_model(self):
        self.init_qpos[1] = -0.5
        return super().reset_model()


for _class in (BrokenState, WildAnt, Sunk):
    gymnasium.register(f"{_class.__name__}-v0", entry_point=f"{__name__}:{_class.__name__}", max_episode_steps=1000)
