"""The terms of the quadruped's reward, each a function of the task, by name with its default weight.

`robot` is a `Quadruped`: what it measures are its attributes. Weights are those of one second.
Source of the form: Rudin et al. 2021, "Learning to walk in minutes", arXiv:2109.11978.

Shapes: K environments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float64Array = NDArray[np.float64]
_WIDTH = 0.25  # (m/s)^2 and (rad/s)^2: the squared error at which tracking earns exp(-1)
_MOVING = 0.1  # m/s and rad/s: commands below it are for standing
_SWING = 0.2  # s: a foot earns what it is in the air for longer, and pays for less
_SWING_LIMITS = (-0.1, 0.2)  # s: most that it pays and earns


def track_velocity(robot: Any) -> Float64Array:
    """1 if the horizontal velocity is the commanded one."""
    error = robot.velocity[:, :2] - robot.command[:, :2]
    return np.asarray(np.exp(-_square(error) / _WIDTH))


def track_turn(robot: Any) -> Float64Array:
    """1 if the yaw rate is the commanded one."""
    return np.asarray(np.exp(-np.square(robot.turn_rate[:, 2] - robot.command[:, 2]) / _WIDTH))


def bounce(robot: Any) -> Float64Array:
    """The square of the vertical velocity, (m/s)^2."""
    return np.asarray(np.square(robot.velocity[:, 2]))


def wobble(robot: Any) -> Float64Array:
    """The square of the roll and pitch rates, (rad/s)^2."""
    return _square(robot.turn_rate[:, :2])


def tilt(robot: Any) -> Float64Array:
    """The square of the sine of the trunk's tilt."""
    return _square(robot.gravity[:, :2])


def height(robot: Any) -> Float64Array:
    """The square of the trunk's distance from its standing height, m^2."""
    return np.asarray(np.square(robot.height - robot.robot.height))


def torque(robot: Any) -> Float64Array:
    """The sum of squared torques, (N m)^2."""
    return _square(robot.torque)


def power(robot: Any) -> Float64Array:
    """The sum of the joints' mechanical power without regard to its sign, W."""
    return np.asarray(np.abs(robot.torque * robot.joint_velocity).sum(axis=1))


def action_rate(robot: Any) -> Float64Array:
    """The squared change of the action since the last step."""
    return _square(robot.action - robot.last_action)


def pose(robot: Any) -> Float64Array:
    """The squared distance of the joints from the standing pose, rad^2, three times as much for the abductions."""
    return np.asarray((np.square(robot.joint_offset) * _POSE_WEIGHTS).sum(axis=1))


def stand(robot: Any) -> Float64Array:
    """The distance of the joints from the standing pose if the robot is to stand, rad."""
    return np.asarray(np.abs(robot.joint_offset).sum(axis=1) * ~_is_to_move(robot))


def swing(robot: Any) -> Float64Array:
    """For each foot that lands, how much longer than a short swing it was in the air, over the seconds of a step."""
    earned = (np.clip(robot.landing - _SWING, *_SWING_LIMITS) * (robot.landing > 0.0)).sum(axis=1)
    return np.asarray(earned / robot.step_seconds * _is_to_move(robot))


def lifted(robot: Any) -> Float64Array:
    """How many feet are in the air although the robot is to stand."""
    return np.asarray((~robot.contact).sum(axis=1) * ~_is_to_move(robot), np.float64)


def slip(robot: Any) -> Float64Array:
    """The squared speed of the feet that touch the ground, (m/s)^2."""
    return np.asarray((np.square(robot.foot_speed) * robot.contact).sum(axis=1))


def alive(robot: Any) -> Float64Array:
    """1 in every step."""
    return np.ones(robot.num_envs)


def fall(robot: Any) -> Float64Array:
    """1 over the seconds of a step if the robot falls, so that the weight is what a fall costs."""
    return np.asarray(robot.has_fallen / robot.step_seconds)


_POSE_WEIGHTS = np.array([3.0, 1.0, 1.0] * 4)
TERMS: dict[str, tuple[float, Callable[[Any], Float64Array]]] = {
    "track_velocity": (1.5, track_velocity),
    "track_turn": (1.0, track_turn),
    "alive": (0.25, alive),
    "bounce": (-2.0, bounce),
    "wobble": (-0.05, wobble),
    "tilt": (-2.0, tilt),
    "height": (-20.0, height),
    "torque": (-1e-4, torque),
    "power": (-5e-4, power),
    "action_rate": (-0.15, action_rate),
    "pose": (-0.1, pose),
    "stand": (-0.3, stand),
    "swing": (0.3, swing),
    "lifted": (-0.2, lifted),
    "slip": (-0.05, slip),
    "fall": (-1.0, fall),
}


def _square(values: Any) -> Float64Array:
    return np.asarray(np.square(values).sum(axis=1), np.float64)


def _is_to_move(robot: Any) -> NDArray[np.bool_]:
    return np.asarray(np.abs(robot.command).max(axis=1) > _MOVING)
