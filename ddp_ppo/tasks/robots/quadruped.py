"""A four-legged robot that follows velocity commands at 50 Hz, on flat or rough ground.

What the robot can measure are 45 columns, with noise: angular velocity 3, projected gravity 3, command 3, joint angles
12, joint velocities 12, previous actions 12. Groups that are marked as privileged follow, for a critic. The 12 actions
are offsets of the joints' target angles from the pose in which the robot stands.

Shapes: K environments, n of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import mujoco
import numpy as np
from numpy.typing import NDArray

from ddp_ppo.errors import EnvError
from ddp_ppo.tasks.robots.columns import observation
from ddp_ppo.tasks.robots.model import FIRST_FOOT, OWN, Drive, Robot, load_robot, mirrored_joints
from ddp_ppo.tasks.robots.rewards import TERMS, track_velocity
from ddp_ppo.tasks.robots.rotation import gravity, heading, to_body, yaw_quaternion
from ddp_ppo.tasks.vectorised.design import Commands, Design, End, Pushes, Term, Vary
from ddp_ppo.tasks.vectorised.gym_env import TaskEnv
from ddp_ppo.tasks.vectorised.task import MujocoTask
from ddp_ppo.tasks.vectorised.terrain import Terrain, rough_terrain

Float64Array = NDArray[np.float64]
Ids = NDArray[np.int32]
GYMNASIUM_ID = "Quadruped-v0"
_ACTION_SCALE = (0.4, 0.8, 0.8)  # rad of an action of 1: abduction, hip, knee
_CONTACT_FORCE = 1.0  # N
_MAX_TILT_COSINE = 0.4  # an angle of 66 degrees
_LOWEST = 0.4  # of the standing height
_GOOD_TRACKING, _POOR_TRACKING = 0.7, 0.4  # mean of `track_velocity` over an episode: a row up, a row down
_MAX_PUSH = 60.0  # N, for 0.1 s
_MASS_SHARE = 0.12  # of the trunk's mass, more or less
_NEUTRAL = {"friction": 0.8, "payload": 0.0, "motor_strength": 1.0}
COMMAND_LIMITS = (1.0, 0.5, 1.0)  # m/s forwards, m/s to the left, rad/s


class Quadruped(MujocoTask):
    """See the module.

    Attributes:
        robot: the model's facts.
        orientation: of the trunk, [K, 4].
        velocity, turn_rate, gravity: [K, 3] of the trunk in its own frame, m/s, rad/s and 1.
        height: of the trunk above the ground, [K] in m.
        joint_offset, joint_velocity, torque: [K, 12] in rad, rad/s and N m; offsets are from the standing pose.
        foot_force, contact, foot_speed: [K, 4] in N, whether it is above 1 N, and m/s along the ground.
        landing: [K, 4] the time that a foot which lands in this step was in the air, in s; 0 for all others.
        has_fallen: [K].
    """

    def __init__(
        self,
        num_envs: int,
        *,
        robot: str = OWN,
        drive: Mapping[str, Any] | None = None,
        terrain: str = "flat",
        commands: Sequence[Sequence[float]] = (),
        command_limits: Sequence[float] = COMMAND_LIMITS,
        reward_weights: Mapping[str, float] | None = None,
        has_randomisation: bool = True,
        has_privileged: bool = True,
        episode_seconds: float = 20.0,
        physics_steps: int = 5,
    ) -> None:
        """Builds K quadrupeds.

        Args:
            robot: see `model.load_robot`.
            drive: stiffness, damping, torque_limits and armature that replace the model's actuators: `model.Drive`.
            terrain: "flat" or "rough".
            commands: rows (seconds, forwards, left, turn) that every episode follows in place of random commands.
            command_limits: largest random command forwards, to the left (m/s) and of the turn (rad/s).
            reward_weights: replaces weights of `rewards.TERMS` by name.
            has_randomisation: whether friction, mass, motors, delays, noise and pushes vary.
            has_privileged: whether the privileged columns follow the measured ones.
            episode_seconds: time limit.
            physics_steps: of 4 ms in a control step.

        Raises:
            EnvError: there is no such robot, terrain or reward.
        """
        self.terrain = _terrain(terrain)
        self.robot = load_robot(robot, drive=_drive(drive), terrain=self.terrain)
        groups = observation(self.robot, noise=float(has_randomisation), has_terrain=self.terrain is not None)
        design = Design(
            model=self.robot.spec,
            physics_steps=physics_steps,
            episode_seconds=episode_seconds,
            obs=tuple(group for group in groups if has_privileged or not group.is_privileged),
            rewards=_rewards(reward_weights or {}),
            ends=(End(name="fall", read=lambda task: task.has_fallen), *_map_end(self.terrain)),
            home=tuple(self.robot.home),
            action_scale=_ACTION_SCALE * 4,
            action_unit="rad",
            vary=_variations(self.robot) if has_randomisation else (),
            pushes=Pushes(body=self.robot.trunk, max_force=_MAX_PUSH) if has_randomisation else None,
            commands=_commands(command_limits, commands),
            action_mirror=tuple(mirrored_joints(self.robot)),
        )
        super().__init__(num_envs, design)
        self.foot_force = self.sim.field("sensordata")
        self._feet = self.sim.field("geom_xpos")[:, FIRST_FOOT:, :2]
        self.torque = self.sim.field("qfrc_actuator")[:, 6:]
        self._air_time = self.memory("air_time", 4)
        self._was_touching = self.memory("was_touching", 4, dtype=np.bool_)
        self._last_feet = self.memory("last_feet", 4, 2)
        self._tracking = self.memory("tracking")
        self._level = self.memory("level", dtype=np.int64, is_lasting=True)
        self._has_level = self.memory("has_level", dtype=np.bool_, is_lasting=True)
        self.landing, self.foot_speed = np.zeros((num_envs, 4)), np.zeros((num_envs, 4))

    def place(self, ids: Ids) -> None:
        """Stands the robots up with random headings, joint angles and velocities."""
        qpos, qvel = self.sim.qpos, self.sim.qvel
        drawn = self.streams.uniform(24, -1.0, 1.0, ids=ids)
        x, y = self._start(drawn[:, :4], ids)
        qpos[ids, 0], qpos[ids, 1] = x, y
        qpos[ids, 2] = self.robot.height + 0.02 + self._ground_height(x, y)
        qpos[ids, 3:7] = yaw_quaternion(np.pi * drawn[:, 4])
        qpos[ids, 7:] = self.robot.home + 0.1 * drawn[:, 5:17]
        qvel[ids, :6] = 0.2 * drawn[:, 17:23]

    def drawn_model(self) -> mujoco.MjModel:
        """The robot with everything that is drawn."""
        return self.robot.drawn.compile()

    def measure(self) -> None:
        """See `MujocoTask`."""
        qpos, qvel = self.sim.qpos.copy(), self.sim.qvel.copy()  # rows of the live arrays lie kilobytes apart
        self.orientation, self.turn_rate, self.joint_velocity = qpos[:, 3:7], qvel[:, 3:6], qvel[:, 6:]
        self.velocity, self.gravity = to_body(self.orientation, qvel[:, :3]), gravity(self.orientation)
        self.height = qpos[:, 2] - self._ground_height(qpos[:, 0], qpos[:, 1])
        self.joint_offset = qpos[:, 7:] - self.robot.home
        self.contact = self.foot_force > _CONTACT_FORCE
        self.has_fallen = (self.gravity[:, 2] > -_MAX_TILT_COSINE) | (self.height < _LOWEST * self.robot.height)

    def count(self) -> None:
        """Times the feet in the air and follows them along the ground."""
        lands = self.contact & ~self._was_touching
        self.landing = self._air_time * lands
        self._air_time += self.step_seconds
        self._air_time[self.contact] = 0.0
        self._was_touching[...] = self.contact
        moved = self._feet - self._last_feet
        self.foot_speed = np.hypot(moved[:, :, 0], moved[:, :, 1]) / self.step_seconds
        self.foot_speed[self.elapsed == 1] = 0.0
        self._last_feet[...] = self._feet
        if self.terrain is not None:
            self._tracking += track_velocity(self)

    def finish(self, ids: Ids) -> None:
        """Sends robots that have followed their commands to rougher ground, and those that have not to smoother one."""
        if self.terrain is None:
            return
        score = self._tracking[ids] / np.maximum(self.elapsed[ids], 1)
        is_good = (score > _GOOD_TRACKING) & ~self.has_fallen[ids]
        is_poor = (score < _POOR_TRACKING) | self.has_fallen[ids]
        level = np.maximum(self._level[ids] + is_good - is_poor, 0)
        rows = len(self.terrain.origins)
        drawn = self.streams.uniform(1, 0, rows, ids=ids)[:, 0].astype(np.int64)
        self._level[ids] = np.where(level < rows, level, drawn)  # who masters all goes anywhere

    def measures(self) -> dict[str, Float64Array]:
        """Errors of the velocity in m/s and rad/s."""
        error = self.velocity[:, :2] - self.command[:, :2]
        return {
            "error_velocity": np.hypot(error[:, 0], error[:, 1]),
            "error_turn": np.abs(self.turn_rate[:, 2] - self.command[:, 2]),
        }

    def drawn(self, name: str) -> Float64Array:
        """What each environment drew [K]; without randomisation the value that changes nothing."""
        return self.varied[name] if name in self.varied else np.full(self.num_envs, _NEUTRAL[name])

    def ground_around(self, offsets: Float64Array) -> Float64Array:
        """Heights [K, m] of the ground below the trunk at offsets [m, 2] along its heading, relative to the trunk."""
        cos, sin = (part[:, None] for part in heading(self.orientation))
        along, across = offsets.T
        x = self.sim.qpos[:, 0:1] + cos * along - sin * across
        y = self.sim.qpos[:, 1:2] + sin * along + cos * across
        return self._ground_height(x, y) - self.sim.qpos[:, 2:3]

    def _ground_height(self, x: Float64Array, y: Float64Array) -> Float64Array:
        return np.zeros(np.shape(x)) if self.terrain is None else self.terrain.height(x, y)

    def _start(self, drawn: Float64Array, ids: Ids) -> tuple[Float64Array, Float64Array]:
        """Where robots start: around the origin, or around the middle of a tile of their row."""
        x, y = drawn[:, 0], drawn[:, 1]
        if self.terrain is None:
            return x, y
        share = (drawn[:, 2:4] + 1.0) / 2.0
        rows, columns = self.terrain.origins.shape[:2]
        num_rows = max(round(rows * min(max(self.progress, 0.0), 1.0)), 1)
        first = (share[:, 0] * num_rows).astype(np.int64)
        self._level[ids] = np.where(self._has_level[ids], self._level[ids], first)
        self._has_level[ids] = True
        tile = self.terrain.origins[self._level[ids], (share[:, 1] * columns).astype(int)]
        return tile[:, 0] + 0.5 * x, tile[:, 1] + 0.5 * y


def _terrain(name: str) -> Terrain | None:
    if name not in ("flat", "rough"):
        raise EnvError(f"terrain {name!r}: use flat or rough")
    return rough_terrain() if name == "rough" else None


def _drive(values: Mapping[str, Any] | None) -> Drive | None:
    if values is None:
        return None
    try:
        return Drive(**values)
    except TypeError as error:
        raise EnvError(
            f"drive {dict(values)}: use stiffness, damping, three torque_limits and three of armature"
        ) from error


def _rewards(weights: Mapping[str, float]) -> tuple[Term, ...]:
    unknown = [name for name in weights if name not in TERMS]
    if unknown:
        raise EnvError(f"reward_weights: there is no term {unknown[0]!r}; the terms are {', '.join(TERMS)}")
    return tuple(Term(name=name, weight=weights.get(name, own), read=read) for name, (own, read) in TERMS.items())


def _commands(limits: Sequence[float], schedule: Sequence[Sequence[float]]) -> Commands:
    high = tuple(float(limit) for limit in limits)
    return Commands(
        columns=("forwards", "left", "turn"),
        low=tuple(-limit for limit in high),
        high=high,
        schedule=tuple(tuple(map(float, row)) for row in schedule),
    )


def _map_end(terrain: Terrain | None) -> tuple[End, ...]:
    if terrain is None:
        return ()
    half_x, half_y = terrain.half_size

    def has_left(task: Any) -> NDArray[np.bool_]:
        x, y = task.sim.qpos[:, 0], task.sim.qpos[:, 1]
        return np.asarray((np.abs(x) > half_x - 1.0) | (np.abs(y) > half_y - 1.0))

    return (End(name="left_map", read=has_left, is_outside=True),)


def _variations(robot: Robot) -> tuple[Vary, ...]:
    trunk = robot.spec.body(robot.trunk)
    payload = _MASS_SHARE * float(trunk.mass)
    motors = ("actuator_gainprm", "actuator_biasprm", "actuator_forcerange")
    return (
        Vary(name="friction", fields=("geom_friction",), low=0.4, high=1.2, rows=(0,), column=0),
        Vary(name="payload", fields=("body_mass",), low=-payload, high=2.0 * payload, rows=(1,), how="add"),
        Vary(name="motor_strength", fields=motors, low=0.9, high=1.1, how="scale"),
        Vary(name="delay", fields=("actuator_delay",), low=0.0, high=0.016),
    )


gymnasium.register(GYMNASIUM_ID, f"{TaskEnv.__module__}:{TaskEnv.__name__}", kwargs={"task": Quadruped})
