"""What Gymnasium's MuJoCo tasks observe and drive, named after the joints, bodies and actuators of their models.

A column's `source` is an expression over the fields of MjData. Fields of bodies (xpos, cinert, cvel, cfrc_ext) describe
the state before the last physics step, as in `physics`.
Source: the classes in gymnasium.envs.mujoco; layout and frames of MjData as in MuJoCo's documentation (mjdata.h).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import mujoco

from ddp_ppo.envs.mujoco.parts import Setup
from ddp_ppo.envs.mujoco.tasks import TASKS, setup_of
from ddp_ppo.protocols import Column


class _Number(NamedTuple):
    """One number of a joint or body; `frame` may name {axis} and {body}."""

    name: str
    unit: str
    frame: str


def _numbers(name: str, unit: str, frame: str, axes: Iterable[str] = "xyz") -> list[_Number]:
    return [_Number(f"{name}_{axis}", unit, frame) for axis in axes]


_FREE, _BALL, _SLIDE, _HINGE = (
    int(kind)
    for kind in (
        mujoco.mjtJoint.mjJNT_FREE,
        mujoco.mjtJoint.mjJNT_BALL,
        mujoco.mjtJoint.mjJNT_SLIDE,
        mujoco.mjtJoint.mjJNT_HINGE,
    )
)
_AXIS = "axis {axis} of {body}"
_TREE = "world axes, at the centre of mass of its kinematic tree"
_POSITIONS = {
    _FREE: _numbers("position", "m", "world") + _numbers("quaternion", "1", "world", "wxyz"),
    _BALL: _numbers("quaternion", "1", "parent of {body}", "wxyz"),
    _SLIDE: [_Number("position", "m", _AXIS)],
    _HINGE: [_Number("angle", "rad", _AXIS)],
}
_VELOCITIES = {
    _FREE: _numbers("velocity", "m/s", "world") + _numbers("angular_velocity", "rad/s", "{body}"),
    _BALL: _numbers("angular_velocity", "rad/s", "{body}"),
    _SLIDE: [_Number("velocity", "m/s", _AXIS)],
    _HINGE: [_Number("angular_velocity", "rad/s", _AXIS)],
}
_FORCES = {
    _FREE: _numbers("force", "N", "world") + _numbers("torque", "N m", "{body}"),
    _BALL: _numbers("torque", "N m", "{body}"),
    _SLIDE: [_Number("force", "N", _AXIS)],
    _HINGE: [_Number("torque", "N m", _AXIS)],
}
# MuJoCo's spatial vectors have the rotation first (Gymnasium's documentation has it last).
_BODY_FIELDS = {
    "cinert": [
        *_numbers("inertia", "kg m2", _TREE, ("xx", "yy", "zz", "xy", "xz", "yz")),
        *_numbers("mass_offset", "kg m", _TREE),
        _Number("mass", "kg", ""),
    ],
    "cvel": _numbers("tree_angular_velocity", "rad/s", _TREE) + _numbers("tree_velocity", "m/s", _TREE),
    "cfrc_ext": _numbers("external_torque", "N m", _TREE) + _numbers("external_force", "N", _TREE),
    "xpos": _numbers("frame_position", "m", "world"),
}


def obs_columns(env: Any) -> list[Column]:
    """The columns of one of the tasks in `tasks.TASKS`, an environment without wrappers; empty for others."""
    if env.spec.entry_point not in TASKS:
        return []
    _, class_name = env.spec.entry_point.split(":")
    return _LAYOUTS[class_name](setup_of(env))


def action_columns(model: Any) -> list[Column]:
    """The actuators of a model; the unit says what an action of 1 sets, gear and gain included."""
    return [_actuator(model, index) for index in range(model.nu)]


def _actuator(model: Any, index: int) -> Column:
    name, source = model.actuator(index).name, f"ctrl[{index}]"
    joint = int(model.actuator_trnid[index, 0])
    is_joint = model.actuator_trntype[index] == mujoco.mjtTrn.mjTRN_JOINT
    if not is_joint:
        return Column(name or f"actuator{index}", "", source)
    kind = int(model.jnt_type[joint])
    is_motor = model.actuator_gaintype[index] == mujoco.mjtGain.mjGAIN_FIXED and (
        model.actuator_biastype[index] == mujoco.mjtBias.mjBIAS_NONE
    )
    unit = ""
    if is_motor and kind in (_SLIDE, _HINGE):
        size = float(model.actuator_gear[index, 0] * model.actuator_gainprm[index, 0])
        unit = f"{size:g} {_FORCES[kind][0].unit}".removeprefix("1 ")
    return Column(name or _joint(model, joint), unit, source, _frame(model, joint, _AXIS))


def _joint(model: Any, joint: int) -> str:
    return model.joint(joint).name or f"joint{joint}"


def _body(model: Any, body: int) -> str:
    return model.body(body).name or f"body{body}"


def _frame(model: Any, joint: int, frame: str) -> str:
    axis = " ".join(f"{component:.3g}" for component in model.jnt_axis[joint])
    return frame.format(axis=axis, body=_body(model, model.jnt_bodyid[joint]))


def _joint_field(model: Any, field: str, numbers: Mapping[int, Sequence[_Number]], prefix: str = "") -> list[Column]:
    """One column for each number of a field over coordinates (nq) or degrees of freedom (nv)."""
    columns: list[Column] = []
    for joint in range(model.njnt):
        for number in numbers[int(model.jnt_type[joint])]:
            name, frame = f"{_joint(model, joint)}.{prefix}{number.name}", _frame(model, joint, number.frame)
            columns.append(Column(name, number.unit, f"{field}[{len(columns)}]", frame))
    return columns


def _body_field(model: Any, field: str, bodies: Iterable[int]) -> list[Column]:
    """One column for each number of a field over bodies."""
    return [
        Column(f"{_body(model, body)}.{number.name}", number.unit, f"{field}[{body},{index}]", number.frame)
        for body in bodies
        for index, number in enumerate(_BODY_FIELDS[field])
    ]


def state_columns(model: Any, field: str) -> list[Column]:
    """The positions ("qpos") or velocities ("qvel") of a model."""
    return _joint_field(model, field, {"qpos": _POSITIONS, "qvel": _VELOCITIES}[field])


def _positions(setup: Setup) -> list[Column]:
    return state_columns(setup.model, "qpos")


def _velocities(setup: Setup) -> list[Column]:
    return state_columns(setup.model, "qvel")


def _limited(columns: Iterable[Column], low: float, high: float) -> list[Column]:
    return [column._replace(source=f"clip({column.source}, {low:g}, {high:g})") for column in columns]


def _of_angle(columns: Iterable[Column], function: str) -> list[Column]:
    return [
        Column(f"{column.name}_{function}", "1", f"{function}({column.source})", column.frame) for column in columns
    ]


def _locomotion(setup: Setup, *, num_root: int = 1, max_velocity: float | None = None) -> list[Column]:
    velocities = _velocities(setup)
    if max_velocity is not None:
        velocities = _limited(velocities, -max_velocity, max_velocity)
    skipped = num_root if setup.args["exclude_current_positions_from_observation"] else 0
    return _positions(setup)[skipped:] + velocities


def _ant(setup: Setup) -> list[Column]:
    args = setup.args
    forces = _body_field(setup.model, "cfrc_ext", range(1, setup.model.nbody))
    seen = _limited(forces, *args["contact_force_range"]) if args["include_cfrc_ext_in_observation"] else []
    return _locomotion(setup, num_root=2) + seen


def _humanoid(setup: Setup) -> list[Column]:
    model, bodies = setup.model, range(1, setup.model.nbody)
    fields = {name: _body_field(model, name, bodies) for name in ("cinert", "cvel")}
    fields["qfrc_actuator"] = _joint_field(model, "qfrc_actuator", _FORCES, "actuator_")[6:]
    fields["cfrc_ext"] = _body_field(model, "cfrc_ext", bodies)
    seen = [columns for name, columns in fields.items() if setup.args[f"include_{name}_in_observation"]]
    return sum(seen, _locomotion(setup, num_root=2))


def _reacher(setup: Setup) -> list[Column]:
    angles, rest = _positions(setup)[:2], _positions(setup)[2:]
    tip, target = (_body_field(setup.model, "xpos", [setup.body(name)]) for name in ("fingertip", "target"))
    gap = [
        Column(f"fingertip_minus_target.{axis}", "m", f"{a.source} - {b.source}", "world")
        for axis, a, b in zip("xy", tip[:2], target[:2], strict=True)
    ]
    turned = _of_angle(angles, "cos") + _of_angle(angles, "sin")
    return turned + rest + _velocities(setup)[:2] + gap


def _pusher(setup: Setup) -> list[Column]:
    places = [setup.body(name) for name in ("tips_arm", "object", "goal")]
    return _positions(setup)[:7] + _velocities(setup)[:7] + _body_field(setup.model, "xpos", places)


def _pendulum(setup: Setup) -> list[Column]:
    return _positions(setup) + _velocities(setup)


def _double_pendulum(setup: Setup) -> list[Column]:
    slide, *angles = _positions(setup)
    forces = _joint_field(setup.model, "qfrc_constraint", _FORCES, "constraint_")
    limited = _limited(_velocities(setup), -10, 10) + _limited(forces, -10, 10)[:1]
    return [slide, *_of_angle(angles, "sin"), *_of_angle(angles, "cos"), *limited]


_LAYOUTS: dict[str, Callable[[Setup], list[Column]]] = {
    "HalfCheetahEnv": _locomotion,
    "SwimmerEnv": partial(_locomotion, num_root=2),
    "HopperEnv": partial(_locomotion, max_velocity=10),
    "Walker2dEnv": partial(_locomotion, max_velocity=10),
    "AntEnv": _ant,
    "HumanoidEnv": _humanoid,
    "HumanoidStandupEnv": _humanoid,
    "ReacherEnv": _reacher,
    "PusherEnv": _pusher,
    "InvertedPendulumEnv": _pendulum,
    "InvertedDoublePendulumEnv": _double_pendulum,
}
