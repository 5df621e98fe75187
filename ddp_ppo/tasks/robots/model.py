"""Reads a four-legged robot and makes of it the model that is simulated, and the one that is drawn.

A robot is any MJCF with a free trunk and four legs of three hinges each, whose last body carries a spherical foot. The
simulated model keeps what decides how the robot moves: bodies, joints, feet, a box around the trunk. Everything else
that is drawn goes, since it costs a tenth of the physics. The solver is PGS with five iterations: it is as close to
the converged solution as three Newton iterations (joint velocities after 20 ms: 0.014 rad/s on average) and takes 39
instead of 57 us for a control step of five physics steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from ddp_ppo.errors import EnvError
from ddp_ppo.tasks.robots.scene import add_ground, decorate
from ddp_ppo.tasks.vectorised.terrain import Terrain

Float64Array = NDArray[np.float64]
OWN = "quadruped"
TRUNK = "robot_trunk"
FIRST_FOOT = 2  # among the geoms of the simulated model: ground, trunk, and the feet in the order of the legs
LEGS = ("FR", "FL", "RR", "RL")  # front or rear, right or left
_MENAGERIE = "menagerie:"
_TIMESTEP, _ITERATIONS = 0.004, 5  # s; of the solver
_HOME = (0.0, 0.8, -1.6)  # rad, of the three joints of a leg, for a model without a keyframe


@dataclass(frozen=True, kw_only=True)
class Drive:
    """Position control of the joints of a model that has no actuators, or in place of its own and of its damping.

    Attributes:
        stiffness, damping: N m/rad and N m s/rad.
        torque_limits: N m of the three joints of a leg.
        armature: inertia of the rotors behind their gears, kg m2, of the three joints of a leg.
    """

    stiffness: float
    damping: float
    torque_limits: Sequence[float]
    armature: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Robot:
    """A robot ready to be simulated; legs and joints stay in the model's order.

    Attributes:
        spec: the simulated model; sensors `<leg>` measure each foot's force in N.
        drawn: the same with everything that is drawn.
        trunk: name of the body with the free joint.
        legs: a name of LEGS for each leg.
        joints: names of the joints.
        home: angles [12] at which it stands, in rad.
        height: of the trunk's frame above the ground when it stands, in m.
        foot_radius: in m.
        axes: [12, 3] of the joints, in the frames of their bodies.
    """

    spec: mujoco.MjSpec
    drawn: mujoco.MjSpec
    trunk: str
    legs: tuple[str, ...]
    joints: tuple[str, ...]
    home: Float64Array
    height: float
    foot_radius: float
    axes: Float64Array


def load_robot(name: str = OWN, *, drive: Drive | None = None, terrain: Terrain | None = None) -> Robot:
    """Reads a robot.

    Args:
        name: "quadruped", "menagerie:" and a name of the package mujoco-menagerie, or the path of an MJCF file.
        drive: replaces the model's actuators.
        terrain: the ground; a plane if None.

    Raises:
        EnvError: there is no such model, or it is not a robot of this kind.
    """
    path = robot_path(name)
    try:
        spec, drawn = (mujoco.MjSpec.from_file(str(path)) for _ in range(2))
        model = spec.compile()
    except ValueError as error:
        raise EnvError(f"robot {name!r}: MuJoCo cannot read {path}: {' '.join(str(error).split())}") from error
    legs = _legs(model, name)
    keyframe = model.key_qpos[0, 7:] if model.nkey else np.tile(_HOME, 4)
    feet, trunk = [leg.foot for leg in legs], model.body(1).name
    height, radius = _stand(model, keyframe, feet)
    box = _trunk_box(model)
    for one in (spec, drawn):
        _prepare(one, model, trunk, drive, name)
    _keep_contacts(spec, feet, trunk, box)
    for one in (spec, drawn):
        add_ground(one, terrain)
    decorate(drawn)
    _add_foot_sensors(spec, model, legs)
    return Robot(
        spec=spec,
        drawn=drawn,
        trunk=trunk,
        legs=tuple(leg.name for leg in legs),
        joints=tuple(model.joint(index).name for index in range(1, 13)),
        home=np.array(keyframe),
        height=height,
        foot_radius=radius,
        axes=model.jnt_axis[1:].copy(),
    )


def robot_path(name: str) -> Path:
    """The MJCF file of a robot; see `load_robot`."""
    if name == OWN:
        return Path(str(files(__package__).joinpath("quadruped.xml")))
    if not name.startswith(_MENAGERIE):
        path = Path(name).expanduser()
        if not path.is_file():
            raise EnvError(f"robot {name!r}: no such file; use {OWN!r}, a path, or {_MENAGERIE}unitree_go1")
        return path
    try:
        import mujoco_menagerie
    except ImportError as error:
        raise EnvError(f"robot {name!r} needs the package mujoco-menagerie: pip install 'ddp-ppo[robots]'") from error
    try:
        robot = mujoco_menagerie.get(name.removeprefix(_MENAGERIE))
        return Path(robot.xml(robot.default_model))
    except mujoco_menagerie.MenagerieError as error:
        raise EnvError(f"robot {name!r}: mujoco-menagerie: {' '.join(str(error).split())}") from error


@dataclass(frozen=True)
class _Leg:
    name: str
    foot: int  # geom
    body: int  # that carries the foot


def _legs(model: mujoco.MjModel, name: str) -> list[_Leg]:
    """The legs in the order of their joints; EnvError if the model has others."""
    kinds = [int(kind) for kind in model.jnt_type]
    if kinds != [int(mujoco.mjtJoint.mjJNT_FREE)] + [int(mujoco.mjtJoint.mjJNT_HINGE)] * 12:
        raise EnvError(f"robot {name!r}: its joints must be one free joint and then 12 hinges, not {len(kinds)} joints")
    found = []
    for first in range(1, 13, 3):
        hip, end = (int(model.jnt_bodyid[first + offset]) for offset in (0, 2))
        feet = [geom for geom in range(model.ngeom) if _is_foot(model, geom, end)]
        if not feet:
            raise EnvError(f"robot {name!r}: the leg of joint {model.joint(first).name!r} has no sphere as its foot")
        foot = min(feet, key=lambda geom: float(model.geom_pos[geom, 2]))
        x, y = model.body_pos[hip, :2]
        leg = ("F" if x > 0 else "R") + ("L" if y > 0 else "R")
        found.append(_Leg(leg, foot, int(model.geom_bodyid[foot])))
    if sorted(leg.name for leg in found) != sorted(LEGS):
        raise EnvError(f"robot {name!r}: its hips must lie at the four corners of the trunk")
    return found


def _is_foot(model: mujoco.MjModel, geom: int, end: int) -> bool:
    body = int(model.geom_bodyid[geom])
    is_below = body == end or int(model.body_parentid[body]) == end
    is_touching = model.geom_contype[geom] or model.geom_conaffinity[geom]
    return bool(is_below and is_touching and model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_SPHERE)


def _stand(model: mujoco.MjModel, home: Float64Array, feet: Sequence[int]) -> tuple[float, float]:
    """The height of the trunk above its feet's soles, and a foot's radius."""
    data = mujoco.MjData(model)
    data.qpos[:7], data.qpos[7:] = [0, 0, 0, 1, 0, 0, 0], home
    mujoco.mj_kinematics(model, data)
    radius = float(model.geom_size[feet[0], 0])
    return radius - float(min(data.geom_xpos[foot, 2] for foot in feet)), radius


_MESH = mujoco.mjtGeom.mjGEOM_MESH


def _trunk_box(model: mujoco.MjModel) -> tuple[Float64Array, Float64Array]:
    """Centre and half sizes of a box around what collides of the trunk, or of a box that fits its inertia."""
    collide = (model.geom_contype + model.geom_conaffinity) > 0
    touching = np.flatnonzero((model.geom_bodyid == 1) & collide).tolist()
    geoms = [geom for geom in touching if model.geom_type[geom] != _MESH]
    if not geoms:
        inertia, mass = model.body_inertia[1], model.body_mass[1]
        return model.body_ipos[1].copy(), 0.8 * np.sqrt(1.5 * (inertia.sum() - 2.0 * inertia) / mass)
    low = np.min([model.geom_pos[g] - _extent(model, g) for g in geoms], axis=0)
    high = np.max([model.geom_pos[g] + _extent(model, g) for g in geoms], axis=0)
    return (low + high) / 2.0, (high - low) / 2.0


def _extent(model: mujoco.MjModel, geom: int) -> Float64Array:
    """Half sizes along the body's axes."""
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, model.geom_quat[geom])
    return np.asarray(np.abs(turn.reshape(3, 3)) @ model.geom_aabb[geom, 3:])


def _prepare(spec: mujoco.MjSpec, model: mujoco.MjModel, trunk: str, drive: Drive | None, name: str) -> None:
    """What the simulated and the drawn model have in common."""
    option = spec.option
    option.timestep, option.integrator = _TIMESTEP, mujoco.mjtIntegrator.mjINT_EULER
    option.solver, option.iterations = mujoco.mjtSolver.mjSOL_PGS, _ITERATIONS
    option.cone, option.disableflags = mujoco.mjtCone.mjCONE_PYRAMIDAL, mujoco.mjtDisableBit.mjDSBL_ISLAND
    for one in (*spec.keys, *spec.sensors):
        spec.delete(one)
    _keep_masses(spec, model)
    spec.body(trunk).pos = [0.0, 0.0, 0.0]
    for joint in spec.joints[1:]:
        joint.frictionloss = 0.0  # twelve more constraints, which the varied damping and strength stand in for
    if drive is not None:
        _replace_actuators(spec, drive)
    if [actuator.target for actuator in spec.actuators] != [joint.name for joint in spec.joints[1:]]:
        raise EnvError(f"robot {name!r}: it needs one actuator for each joint, in their order; give it a drive")
    _require_position_control(spec, name)


def _keep_masses(spec: mujoco.MjSpec, model: mujoco.MjModel) -> None:
    """Makes every body's inertia independent of the geoms that it carries."""
    spec.compiler.inertiafromgeom = 0
    for body in spec.bodies[1:]:
        body.explicitinertial, body.mass = True, model.body_mass[body.id]
        body.ipos, body.iquat = model.body_ipos[body.id], model.body_iquat[body.id]
        body.inertia, body.fullinertia = model.body_inertia[body.id], [np.nan] * 6


def _require_position_control(spec: mujoco.MjSpec, name: str) -> None:
    for actuator in spec.actuators:
        if actuator.biasprm[1] != -actuator.gainprm[0]:
            raise EnvError(f"robot {name!r}: actuator {actuator.name!r} does not control a position; give it a drive")
        actuator.ctrllimited = False


def _replace_actuators(spec: mujoco.MjSpec, drive: Drive) -> None:
    for actuator in list(spec.actuators):
        spec.delete(actuator)
    for index, joint in enumerate(spec.joints[1:]):
        actuator = spec.add_actuator(name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        actuator.set_to_position(kp=drive.stiffness, kv=drive.damping)
        limit = drive.torque_limits[index % 3]
        actuator.forcelimited, actuator.forcerange = True, [-limit, limit]
        joint.armature, joint.damping = drive.armature[index % 3], [0.0, 0.0, 0.0]


def _keep_contacts(
    spec: mujoco.MjSpec, feet: Sequence[int], trunk: str, box: tuple[Float64Array, Float64Array]
) -> None:
    """Leaves the feet and a box in place of the trunk; none of them touches another."""
    geoms = list(spec.geoms)
    for index, geom in enumerate(geoms):
        if index not in feet:
            spec.delete(geom)
            continue
        _make_touchable(geom)
    spec.body(trunk).add_geom(name=TRUNK, type=mujoco.mjtGeom.mjGEOM_BOX, pos=box[0], size=box[1], mass=0.0)
    _make_touchable(spec.geom(TRUNK))


def _make_touchable(geom: Any) -> None:
    geom.contype, geom.conaffinity, geom.condim, geom.priority = 0, 1, 3, 0
    geom.friction = [0.0, 0.005, 0.0001]  # of two geoms the larger friction counts: the ground's


def _add_foot_sensors(spec: mujoco.MjSpec, model: mujoco.MjModel, legs: Sequence[_Leg]) -> None:
    for leg in legs:
        pos, radius = model.geom_pos[leg.foot], float(model.geom_size[leg.foot, 0])
        spec.bodies[leg.body].add_site(name=f"sole_{leg.name}", pos=pos, size=[1.3 * radius, 0.0, 0.0])
        spec.add_sensor(
            name=leg.name,
            type=mujoco.mjtSensor.mjSENS_TOUCH,
            objtype=mujoco.mjtObj.mjOBJ_SITE,
            objname=f"sole_{leg.name}",
        )


def mirrored_joints(robot: Robot) -> Iterator[tuple[int, float]]:
    """For each joint the joint, and the sign, that its angle becomes if left and right are swapped."""
    swapped = {"R": "L", "L": "R"}
    for index, axis in enumerate(robot.axes):
        leg, joint = divmod(index, 3)
        other = 3 * robot.legs.index(robot.legs[leg][0] + swapped[robot.legs[leg][1]]) + joint
        reflected = axis * (-1.0, 1.0, -1.0)  # an axis is a pseudovector: its part across the mirror plane stays
        yield other, float(np.sign(reflected @ robot.axes[other]))
