"""Gymnasium's MuJoCo tasks that run as arrays, every argument that they have, and actions for them."""

import unittest

import numpy as np

from ddp_ppo.envs.mujoco.batch import missing_batch

needs_batch = unittest.skipIf(missing_batch(), f"no tasks as arrays: {missing_batch()}")
BACKENDS = ("gymnasium",) if missing_batch() else ("gymnasium", "mujoco")
TASKS = (
    "HalfCheetah-v5",
    "Hopper-v5",
    "Walker2d-v5",
    "Ant-v5",
    "Humanoid-v5",
    "HumanoidStandup-v5",
    "Swimmer-v5",
    "Reacher-v5",
    "Pusher-v5",
    "InvertedPendulum-v5",
    "InvertedDoublePendulum-v5",
)
UNNAMED = ("HumanoidStandup-v5", "InvertedDoublePendulum-v5")  # of these the reward has parts without a name
ALL_POSITIONS = {"exclude_current_positions_from_observation": False}
# every argument that a task has, away from its default
VARIANTS = (
    (
        "HalfCheetah-v5",
        {**ALL_POSITIONS, "forward_reward_weight": 2, "ctrl_cost_weight": 0.3, "reset_noise_scale": 0.5},
    ),
    ("HalfCheetah-v5", {"frame_skip": 3, "xml_file": "half_cheetah.xml"}),
    ("Swimmer-v5", {**ALL_POSITIONS, "forward_reward_weight": 2, "ctrl_cost_weight": 1, "reset_noise_scale": 0.5}),
    ("Swimmer-v5", {"frame_skip": 2, "xml_file": "swimmer.xml"}),
    (
        "Hopper-v5",
        {
            **ALL_POSITIONS,
            "healthy_state_range": [-5, 5],
            "healthy_z_range": (0.6, 1.3),
            "healthy_angle_range": [-0.1, 0.3],
            "healthy_reward": 2,
            "ctrl_cost_weight": 1,
        },
    ),
    ("Hopper-v5", {"terminate_when_unhealthy": False, "forward_reward_weight": 0.5, "reset_noise_scale": 0.1}),
    ("Hopper-v5", {"frame_skip": 2, "xml_file": "hopper.xml"}),
    ("Walker2d-v5", {**ALL_POSITIONS, "healthy_z_range": (0.9, 1.3), "healthy_angle_range": (-0.1, 0.3)}),
    ("Walker2d-v5", {"healthy_reward": 3, "terminate_when_unhealthy": False, "forward_reward_weight": 2}),
    ("Walker2d-v5", {"frame_skip": 2, "xml_file": "walker2d.xml", "ctrl_cost_weight": 1, "reset_noise_scale": 0.1}),
    (
        "Ant-v5",
        {
            **ALL_POSITIONS,
            "main_body": 3,
            "healthy_z_range": [0.4, 0.8],
            "include_cfrc_ext_in_observation": False,
            "contact_force_range": (-0.3, 0.2),
            "contact_cost_weight": 0.1,
        },
    ),
    (
        "Ant-v5",
        {"main_body": "torso", "terminate_when_unhealthy": False, "healthy_reward": 2, "forward_reward_weight": 3},
    ),
    ("Ant-v5", {"xml_file": "ant.xml", "frame_skip": 3, "ctrl_cost_weight": 1, "reset_noise_scale": 0.3}),
    (
        "Humanoid-v5",
        {
            **ALL_POSITIONS,
            "include_cinert_in_observation": False,
            "include_qfrc_actuator_in_observation": False,
            "contact_cost_weight": 1e-3,
            "contact_cost_range": (0, 1e-3),
        },
    ),
    ("Humanoid-v5", {"include_cvel_in_observation": False, "healthy_z_range": (1.2, 2.1), "healthy_reward": 1}),
    ("Humanoid-v5", {"include_cfrc_ext_in_observation": False, "terminate_when_unhealthy": False, "frame_skip": 3}),
    ("Humanoid-v5", {"forward_reward_weight": 1, "ctrl_cost_weight": 1, "reset_noise_scale": 0.1}),
    ("HumanoidStandup-v5", {"impact_cost_weight": 1e-3, "impact_cost_range": (-1, 3), "reset_noise_scale": 0.1}),
    ("HumanoidStandup-v5", {**ALL_POSITIONS, "uph_cost_weight": 3, "ctrl_cost_weight": 1, "frame_skip": 3}),
    ("HumanoidStandup-v5", {f"include_{name}_in_observation": False for name in ("cinert", "cvel", "qfrc_actuator")}),
    ("HumanoidStandup-v5", {"include_cfrc_ext_in_observation": False}),
    ("Reacher-v5", {"reward_dist_weight": 2, "reward_control_weight": 0.3, "frame_skip": 3, "xml_file": "reacher.xml"}),
    ("Pusher-v5", {"reward_near_weight": 2, "reward_dist_weight": 3, "reward_control_weight": 1, "frame_skip": 2}),
    ("InvertedPendulum-v5", {"reset_noise_scale": 0.15, "frame_skip": 4}),
    ("InvertedDoublePendulum-v5", {"healthy_reward": 3, "reset_noise_scale": 0.2, "frame_skip": 3}),
)


def random_actions(spec, num_envs, rng):
    return rng.uniform(spec.action_low, spec.action_high, (num_envs, spec.action_size)).astype(np.float32)
