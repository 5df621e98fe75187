"""The MuJoCo v4 tasks of Gymnasium, as changes to the v5 tasks; all but Pusher-v4, which needs a MuJoCo before 3.

Source: the classes in gymnasium.envs.mujoco, equalled as in mujoco_v5. Much that is an argument in v5 is fixed in v4.

Shapes: K environments.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from ddp_ppo.envs.mujoco import parts, v5
from ddp_ppo.envs.mujoco.parts import Contacts, Setup
from ddp_ppo.envs.mujoco.physics import Float64Array, Physics
from ddp_ppo.envs.mujoco.v5 import Build, Score, Seen, Task, TaskRow
from ddp_ppo.protocols import FloatArray


def _v4(build: Build, **names: str) -> Build:
    """A v5 task that reports the terms `names`, v4's name=v5's name, and rewards health until the episode ends.

    v5 gives no such reward for the step that ends the episode.
    """

    def build_v4(setup: Setup, physics: Physics) -> Task:
        task = build(setup, physics)
        always = {"is_healthy": np.ones(physics.num_envs, np.bool_)} if task.is_alive is not None else {}

        def judge(x_before: Float64Array, seen: Seen, action: FloatArray) -> Score:
            reward, terms = task.judge(x_before, seen, action)
            return Score(reward, {name: terms[v5_name] for name, v5_name in names.items()})

        return replace(task, seen=task.seen | always, judge=judge)

    return build_v4


def _ant(setup: Setup, physics: Physics) -> Task:
    """With contact forces in observation and reward where asked for; their cost then has the name of the controls'."""
    has_forces = setup.args["use_contact_forces"]
    contacts = partial(parts.ant_contacts, is_whole=True) if has_forces else None
    build = _v4(
        partial(v5.ant, contacts=contacts),
        reward_forward="reward_forward",
        reward_ctrl="reward_contact" if has_forces else "reward_ctrl",
        reward_survive="reward_survive",
    )
    return build(setup, physics)


def _all_fields(setup: Setup, physics: Physics) -> Contacts:
    return Contacts(parts.humanoid_columns(setup, physics, is_whole=True))


def _reacher(setup: Setup, physics: Physics) -> Task:
    """The distance before the step, not after it, and all three coordinates of the gap in the observation."""
    task = v5.reacher(setup, physics)
    gap = task.seen["gap"]

    def judge(x_before: Float64Array, seen: Seen, action: FloatArray) -> Score:
        return task.judge(x_before, {"gap": x_before}, action)

    return replace(task, columns=(*task.columns[:-1], gap), seen={"x": gap}, judge=judge)


_FIELDS = {f"include_{name}_in_observation": True for name in ("cinert", "cvel", "qfrc_actuator", "cfrc_ext")}
_ANT = {"forward_reward_weight": 1, "main_body": "torso", "include_cfrc_ext_in_observation": True}
_HUMANOID = {"use_contact_forces": True, **_FIELDS}
_STANDUP = {
    **_HUMANOID,
    "exclude_current_positions_from_observation": True,
    "ctrl_cost_weight": 0.1,
    "impact_cost_weight": 0.5e-6,
    "impact_cost_range": (-np.inf, 10),
    "reset_noise_scale": 0.01,
}
ROWS = {
    "half_cheetah_v4:HalfCheetahEnv": TaskRow(
        _v4(v5.half_cheetah, reward_run="reward_forward", reward_ctrl="reward_ctrl"), {}
    ),
    "swimmer_v4:SwimmerEnv": TaskRow(_v4(v5.swimmer, reward_fwd="reward_forward", reward_ctrl="reward_ctrl"), {}),
    "hopper_v4:HopperEnv": TaskRow(_v4(v5.hopper), {}),
    "walker2d_v4:Walker2dEnv": TaskRow(_v4(v5.walker2d), {}),
    "ant_v4:AntEnv": TaskRow(_ant, _ANT),
    "humanoid_v4:HumanoidEnv": TaskRow(
        _v4(
            partial(v5.humanoid, contacts=_all_fields),
            reward_linvel="reward_forward",
            reward_quadctrl="reward_ctrl",
            reward_alive="reward_survive",
        ),
        _HUMANOID,
    ),
    "humanoidstandup_v4:HumanoidStandupEnv": TaskRow(partial(v5.standup, is_whole=True), _STANDUP),
    "reacher_v4:ReacherEnv": TaskRow(_reacher, {"reward_dist_weight": 1, "reward_control_weight": 1}),
    "inverted_pendulum_v4:InvertedPendulumEnv": TaskRow(_v4(v5.pendulum), {"reset_noise_scale": 0.01}),
    "inverted_double_pendulum_v4:InvertedDoublePendulumEnv": TaskRow(
        _v4(partial(v5.double_pendulum, num_forces=3)), {"reset_noise_scale": 0.1, "healthy_reward": 10}
    ),
}
