"""The eleven MuJoCo v5 tasks of Gymnasium as array functions over K simulations.

Source: the classes in gymnasium.envs.mujoco, whose observations, rewards, ends and random starts these functions
reproduce, to the last bit where it was measured (x86-64).

Shapes: K environments, A action.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.envs.mujoco import parts
from ddp_ppo.envs.mujoco.parts import Contacts, Draw, Live, Setup
from ddp_ppo.envs.mujoco.physics import Float64Array, Physics
from ddp_ppo.protocols import BoolArray, FloatArray

Seen = dict[str, NDArray[Any]]


class Score(NamedTuple):
    """What steps were worth; M steps, in any shape."""

    reward: Float64Array  # [M]
    terms: dict[str, NDArray[Any]]  # [M] each, named as in Gymnasium's infos


@dataclass(frozen=True)
class Task:
    """A task bound to its simulations.

    Attributes:
        columns: the observation from left to right, live arrays [K, n].
        draw: draws the start of an episode.
        seen: what `judge` reads of a step besides the actions, live arrays [K, ...] by name.
        judge: what steps were worth, given "x" before them [M, ...], what was seen after them [M, ...] and the
            float32 actions [M, A]; M stands for K, or for T, K of a whole rollout.
        refresh: computes those columns and arrays that are no fields of MuJoCo; called after every step and reset.
        is_alive: live [K], False where the task ends by itself; None where it does not.
    """

    columns: tuple[Float64Array, ...]
    draw: Draw
    seen: Seen
    judge: Callable[[Float64Array, Seen, FloatArray], Score]
    refresh: Callable[[], None] = parts.nothing
    is_alive: BoolArray | None = None


Build = Callable[[Setup, Physics], Task]


class TaskRow(NamedTuple):
    """One row of the table of tasks."""

    build: Build
    has_contact_forces: bool = False  # whether it reads cfrc_ext, which BatchPhysics does not compute


def _free_columns(setup: Setup, physics: Physics, num_root: int) -> tuple[Float64Array, Float64Array]:
    skipped = num_root if setup.args["exclude_current_positions_from_observation"] else 0
    return physics.field("qpos")[:, skipped:], physics.field("qvel")


def locomotion(
    setup: Setup,
    physics: Physics,
    *,
    num_root: int = 1,
    max_velocity: float = np.inf,
    start: Callable[[Setup], Draw] = parts.uniform_start,
    position: Callable[[Setup, Physics], Live] = parts.root_x,
    health: Callable[[Setup, Physics], Live] | None = None,
    contacts: Callable[[Setup, Physics], Contacts] | None = None,
    has_ctrl_cost: bool = False,
) -> Task:
    """Progress along x, plus a reward for being healthy, minus the costs of controls and of contacts."""
    args = setup.args
    dt, weight = np.array(setup.dt), np.array(args["forward_reward_weight"], np.float64)
    x = position(setup, physics)
    touch = contacts(setup, physics) if contacts else Contacts()
    healthy = health(setup, physics) if health else Live(np.empty(0))
    control_cost = parts.squared(-args["ctrl_cost_weight"], np.float64 if has_ctrl_cost else parts.ACTION_COST)
    qpos, qvel = _free_columns(setup, physics, num_root)
    limited = Live(qvel) if max_velocity == np.inf else parts.limited(qvel, -max_velocity, max_velocity)

    seen: Seen = {"x": x.array}
    if health is not None:
        seen["is_healthy"] = healthy.array
    if touch.cost is not None:
        seen["contact"] = touch.cost.array
    if has_ctrl_cost:
        seen["ctrl"] = physics.ctrl

    def judge(x_before: Float64Array, seen: Seen, action: FloatArray) -> Score:
        gain = forward = (seen["x"] - x_before) / dt * weight
        price = control = control_cost(seen.get("ctrl", action))
        terms = {"reward_forward": forward, "reward_ctrl": control}
        if health is not None:
            survive = terms["reward_survive"] = seen["is_healthy"] * args["healthy_reward"]
            gain = forward + survive
        if touch.cost is not None:
            contact = terms["reward_contact"] = seen["contact"]
            price = control + contact
        return Score(gain + price, terms)

    return Task(
        columns=(qpos, limited.array, *touch.columns),
        draw=start(setup),
        seen=seen,
        judge=judge,
        refresh=parts.together(*(live.refresh for live in (limited, x, healthy, touch.cost) if live is not None)),
        is_alive=healthy.array if health and args["terminate_when_unhealthy"] else None,
    )


def standup(setup: Setup, physics: Physics) -> Task:
    """Height of the torso over the time of one substep, minus the costs of controls and of impacts, plus 1."""
    height, substep = physics.field("qpos")[:, 2], setup.model.opt.timestep
    control_cost = parts.squared(-setup.args["ctrl_cost_weight"], np.float64)
    impact_cost = parts.humanoid_cost(setup, physics, "impact_cost")

    def judge(x_before: Float64Array, seen: Seen, action: FloatArray) -> Score:
        up, control, impact = seen["height"] / substep, control_cost(seen["ctrl"]), seen["impact"]
        terms = {"reward_linup": up, "reward_quadctrl": control, "reward_impact": impact}
        return Score(up + control + impact + 1, terms)

    return Task(
        columns=(*_free_columns(setup, physics, num_root=2), *parts.humanoid_columns(setup, physics)),
        draw=parts.uniform_start(setup),
        seen={"height": height, "impact": impact_cost.array, "ctrl": physics.ctrl},
        judge=judge,
        refresh=impact_cost.refresh,
    )


def reacher(setup: Setup, physics: Physics) -> Task:
    """The distance from fingertip to target and the cost of controls."""
    args, qpos, xpos = setup.args, physics.field("qpos"), physics.field("xpos")
    fingertip, target = (xpos[:, setup.body(name)] for name in ("fingertip", "target"))
    angles, cosines, sines = np.empty((3, physics.num_envs, 2))
    gap = np.empty((physics.num_envs, 3))
    control_cost = parts.squared(-args["reward_control_weight"], parts.ACTION_COST)

    def refresh() -> None:
        np.copyto(angles, qpos[:, :2])
        np.cos(angles, out=cosines)
        np.sin(angles, out=sines)
        np.subtract(fingertip, target, out=gap)

    def judge(x_before: Float64Array, seen: Seen, action: FloatArray) -> Score:
        distance, control = parts.norm(seen["gap"]) * -args["reward_dist_weight"], control_cost(action)
        return Score(distance + control, {"reward_dist": distance, "reward_ctrl": control})

    columns = (cosines, sines, qpos[:, 2:], physics.field("qvel")[:, :2], gap[:, :2])
    return Task(columns, draw=parts.reacher_start(setup), seen={"gap": gap}, judge=judge, refresh=refresh)


def pusher(setup: Setup, physics: Physics) -> Task:
    """The distances from the object to the goal and to the tip of the arm, and the cost of controls."""
    args, xpos = setup.args, physics.field("xpos")
    places: Seen = {name: xpos[:, setup.body(name)] for name in ("tips_arm", "object", "goal")}
    control_cost = parts.squared(-args["reward_control_weight"], parts.ACTION_COST)

    def judge(x_before: Float64Array, seen: Seen, action: FloatArray) -> Score:
        tip, thing, goal = seen.values()
        near = parts.norm(thing - tip) * -args["reward_near_weight"]
        distance = parts.norm(thing - goal) * -args["reward_dist_weight"]
        control = control_cost(action)
        terms = {"reward_dist": distance, "reward_ctrl": control, "reward_near": near}
        return Score(distance + control + near, terms)

    columns = (physics.field("qpos")[:, :7], physics.field("qvel")[:, :7], *places.values())
    return Task(columns, draw=parts.pusher_start(setup), seen=places, judge=judge)


def pendulum(setup: Setup, physics: Physics) -> Task:
    """One for every step in which the pole stands."""
    qpos, qvel = physics.field("qpos"), physics.field("qvel")
    stands = np.ones(physics.num_envs, np.bool_)

    def refresh() -> None:
        is_finite = parts.rows_all(np.isfinite(qpos)) & parts.rows_all(np.isfinite(qvel))
        np.logical_and(is_finite, ~(np.abs(qpos[:, 1]) > 0.2), out=stands)

    def judge(x_before: Float64Array, seen: Seen, action: FloatArray) -> Score:
        survive = seen["is_healthy"].astype(np.float64)
        return Score(survive, {"reward_survive": survive})

    draw = parts.uniform_start(setup)
    return Task((qpos, qvel), draw, seen={"is_healthy": stands}, judge=judge, refresh=refresh, is_alive=stands)


def double_pendulum(setup: Setup, physics: Physics) -> Task:
    """A bonus while the tip is above 1, minus its distance from (0, 2) and the velocities of the joints."""
    qpos, qvel, force = (physics.field(name) for name in ("qpos", "qvel", "qfrc_constraint"))
    tip = physics.field("site_xpos")[:, 0]
    angles, sines, cosines = np.empty((3, physics.num_envs, qpos.shape[1] - 1))
    velocities, forces = (parts.limited(array, -10, 10) for array in (qvel, force))
    is_up = np.ones(physics.num_envs, np.bool_)

    def refresh() -> None:
        np.copyto(angles, qpos[:, 1:])
        np.sin(angles, out=sines)
        np.cos(angles, out=cosines)
        velocities.refresh()
        forces.refresh()
        np.logical_not(tip[:, 2] <= 1, out=is_up)

    def judge(x_before: Float64Array, seen: Seen, action: FloatArray) -> Score:
        tip, qvel, was_up = seen.values()
        x, y, v1, v2 = tip[..., 0], tip[..., 2], qvel[..., 1], qvel[..., 2]
        survive = setup.args["healthy_reward"] * was_up
        reward = survive - (0.01 * x**2 + (y - 2) ** 2) - (0.001 * v1**2 + 0.005 * v2**2)
        return Score(reward, {"reward_survive": survive})

    columns = (qpos[:, :1], sines, cosines, velocities.array, forces.array[:, :1])
    draw = parts.normal_start(setup)
    seen: Seen = {"tip": tip, "qvel": qvel, "is_healthy": is_up}
    return Task(columns, draw, seen=seen, judge=judge, refresh=refresh, is_alive=is_up)


half_cheetah = partial(locomotion, start=parts.normal_start)
swimmer = partial(locomotion, num_root=2)
hopper = partial(locomotion, health=parts.hopper_health, max_velocity=10)
walker2d = partial(locomotion, health=parts.walker_health, max_velocity=10)
ant = partial(
    locomotion,
    num_root=2,
    start=parts.normal_start,
    position=parts.main_body_x,
    health=parts.ant_health,
    contacts=parts.ant_contacts,
)
humanoid = partial(
    locomotion,
    num_root=2,
    position=parts.mass_centre_x,
    health=parts.humanoid_health,
    contacts=parts.humanoid_contacts,
    has_ctrl_cost=True,
)
ROWS = {
    "half_cheetah_v5:HalfCheetahEnv": TaskRow(half_cheetah),
    "swimmer_v5:SwimmerEnv": TaskRow(swimmer),
    "hopper_v5:HopperEnv": TaskRow(hopper),
    "walker2d_v5:Walker2dEnv": TaskRow(walker2d),
    "ant_v5:AntEnv": TaskRow(ant, has_contact_forces=True),
    "humanoid_v5:HumanoidEnv": TaskRow(humanoid, has_contact_forces=True),
    "humanoidstandup_v5:HumanoidStandupEnv": TaskRow(standup, has_contact_forces=True),
    "reacher_v5:ReacherEnv": TaskRow(reacher),
    "pusher_v5:PusherEnv": TaskRow(pusher),
    "inverted_pendulum_v5:InvertedPendulumEnv": TaskRow(pendulum),
    "inverted_double_pendulum_v5:InvertedDoublePendulumEnv": TaskRow(double_pendulum),
}
