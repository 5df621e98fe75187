"""What a quadruped observes: 45 columns that it can measure, and privileged ones for a critic.

Shapes: K environments.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.tasks.robots.model import Robot, mirrored_joints
from ddp_ppo.tasks.robots.rotation import to_body
from ddp_ppo.tasks.vectorised.design import Group

_XYZ = ("x", "y", "z")
# Left and right swapped: the y component of a vector changes its sign, of an angular velocity the others do.
_VECTOR = ((0, 1.0), (1, -1.0), (2, 1.0))
_PSEUDOVECTOR = ((0, -1.0), (1, 1.0), (2, -1.0))
_COMMAND = ((0, 1.0), (1, -1.0), (2, -1.0))
_FORCE_UNIT = 50.0  # N
_ALONG, _ACROSS = (-0.4, -0.2, 0.0, 0.2, 0.4, 0.6), (-0.25, 0.0, 0.25)  # m: where a critic sees the ground
_SCAN = np.array([(along, across) for along in _ALONG for across in _ACROSS])
_SCAN_MIRROR = tuple((3 * row + column, 1.0) for row in range(len(_ALONG)) for column in (2, 1, 0))


def observation(robot: Robot, *, noise: float, has_terrain: bool) -> tuple[Group, ...]:
    """All groups; `noise` scales the noise of the measured ones."""
    scan = (_scan(),) if has_terrain else ()
    return (*_measured(robot, noise), *_privileged(robot), *scan)


def _measured(robot: Robot, noise: float) -> tuple[Group, ...]:
    joints, mirror = robot.joints, tuple(mirrored_joints(robot))
    return (
        Group(
            name="angular_velocity",
            columns=_XYZ,
            unit="rad/s",
            frame="trunk",
            noise=0.2 * noise,
            mirror=_PSEUDOVECTOR,
            read=lambda task: task.turn_rate,
        ),
        Group(
            name="gravity",
            columns=_XYZ,
            unit="1",
            frame="trunk",
            noise=0.05 * noise,
            mirror=_VECTOR,
            read=lambda task: task.gravity,
        ),
        Group(
            name="command",
            columns=("forwards", "left", "turn"),
            unit="m/s, rad/s",
            frame="trunk",
            mirror=_COMMAND,
            read=lambda task: task.command,
        ),
        Group(
            name="joint_angle",
            columns=joints,
            unit="rad",
            frame="from the standing pose",
            noise=0.01 * noise,
            mirror=mirror,
            read=lambda task: task.joint_offset,
        ),
        Group(
            name="joint_velocity",
            columns=joints,
            unit="rad/s",
            noise=1.0 * noise,
            mirror=mirror,
            read=lambda task: task.joint_velocity,
        ),
        Group(name="last_action", columns=joints, unit="1", mirror=mirror, read=lambda task: task.action),
    )


def _privileged(robot: Robot) -> tuple[Group, ...]:
    swapped = {"R": "L", "L": "R"}
    feet = tuple((robot.legs.index(leg[0] + swapped[leg[1]]), 1.0) for leg in robot.legs)
    return (
        Group(
            name="velocity",
            columns=_XYZ,
            unit="m/s",
            frame="trunk",
            mirror=_VECTOR,
            is_privileged=True,
            read=lambda task: task.velocity,
        ),
        Group(name="height", columns=("trunk",), unit="m", frame="ground", is_privileged=True, read=lambda t: t.height),
        Group(
            name="foot_force",
            columns=robot.legs,
            unit=f"{_FORCE_UNIT:g} N",
            mirror=feet,
            is_privileged=True,
            read=lambda task: np.minimum(task.foot_force / _FORCE_UNIT, 4.0),
        ),
        Group(
            name="push",
            columns=_XYZ,
            unit=f"{_FORCE_UNIT:g} N",
            frame="trunk",
            mirror=_VECTOR,
            is_privileged=True,
            read=_push,
        ),
        Group(name="friction", columns=("ground",), unit="1", is_privileged=True, read=lambda t: t.drawn("friction")),
        Group(name="payload", columns=("trunk",), unit="kg", is_privileged=True, read=lambda t: t.drawn("payload")),
        Group(
            name="motor_strength",
            columns=("all",),
            unit="1",
            is_privileged=True,
            read=lambda task: task.drawn("motor_strength"),
        ),
    )


def _push(task: Any) -> NDArray[np.float64]:
    push: NDArray[np.float64] = task.push
    return to_body(task.orientation, push) / _FORCE_UNIT if push.any() else push


def _scan() -> Group:
    return Group(
        name="ground",
        columns=tuple(f"{along:g},{across:g}" for along, across in _SCAN),
        unit="m",
        frame="trunk, heading",
        mirror=_SCAN_MIRROR,
        is_privileged=True,
        read=lambda task: task.ground_around(_SCAN),
    )
