"""The eleven MuJoCo v5 tasks of Gymnasium as array functions over K simulations, and the table that lists them.

Source: the classes in gymnasium.envs.mujoco, whose observations, rewards, ends and random starts these functions
reproduce, to the last bit where it was measured (x86-64). Models, default arguments and time limits are read from the
installed Gymnasium. Nothing here steps anything: see mujoco_env and mujoco_physics.

Shapes: K environments, A action.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from ddp_ppo import mujoco_parts as parts
from ddp_ppo.mujoco_parts import Contacts, ReadArray, ReadMask, Setup, Start
from ddp_ppo.mujoco_physics import BatchPhysics, Float64Array, LoopPhysics, Physics
from ddp_ppo.protocols import BoolArray, FloatArray


class Score(NamedTuple):
    """What a step was worth; `terminated` is None where a task does not end by itself."""

    reward: Float64Array  # [K]
    terms: dict[str, NDArray[Any]]  # [K] each, named as in Gymnasium's infos
    terminated: BoolArray | None  # [K]


@dataclass(frozen=True)
class Task:
    """A task bound to its simulations.

    Attributes:
        columns: the observation from left to right, live arrays [K, n].
        draw: draws the start of an episode.
        score: judges the last physics step, given its actions float32 [K, A].
        refresh: computes those columns that are no fields of MuJoCo; called after every step and reset, first of all.
        memory: what the next `score` compares with, [K]; the only state besides the physics.
        remember: fills `memory`; called at the end of every step and reset.
    """

    columns: tuple[Float64Array, ...]
    draw: Callable[[np.random.Generator], Start]
    score: Callable[[FloatArray], Score]
    refresh: Callable[[], None] = parts.nothing
    memory: Float64Array | None = None
    remember: Callable[[], None] = parts.nothing


class TaskRow(NamedTuple):
    """One row of the table: a family with what is special to the task, and whether contact forces are read."""

    build: Callable[[Setup, Physics], Task]
    has_contact_forces: bool = False


def covers(env_id: str, env_kwargs: Mapping[str, Any]) -> str | None:
    """Returns None where these tasks include a registered environment with its arguments, else the reason why not."""
    registered = gymnasium.registry[env_id]
    if registered.entry_point not in TASKS:
        return "it is none of Gymnasium's MuJoCo v5 tasks"
    if registered.additional_wrappers:
        return "it is registered with additional wrappers"
    known = inspect.signature(gymnasium.envs.registration.load_env_creator(str(registered.entry_point))).parameters
    foreign = sorted({*registered.kwargs, *env_kwargs} - ({*known} - {"default_camera_config", "kwargs"}))
    return f"the argument {foreign[0]!r} is not of the task but of its rendering, or unknown" if foreign else None


def bind_task(env: Any, num_envs: int) -> tuple[Task, Physics]:
    """Builds K simulations of the task that `env` is, an environment of Gymnasium's own class without wrappers."""
    given = env.spec.kwargs
    signature = inspect.signature(type(env)).bind(**given)
    signature.apply_defaults()
    setup = Setup(env.model, env.dt, env.init_qpos.copy(), env.init_qvel.copy(), signature.arguments)
    row = TASKS[env.spec.entry_point]
    # a model file of one's own may use what Batch does not run, such as sleeping bodies
    needs_loop = row.has_contact_forces or "xml_file" in given
    physics = (LoopPhysics if needs_loop else BatchPhysics)(env.model, num_envs, env.frame_skip)
    return row.build(setup, physics), physics


def _free_columns(setup: Setup, physics: Physics, num_root: int) -> tuple[Float64Array, Float64Array]:
    skipped = num_root if setup.args["exclude_current_positions_from_observation"] else 0
    return physics.field("qpos")[:, skipped:], physics.field("qvel")


def _locomotion(
    setup: Setup,
    physics: Physics,
    *,
    num_root: int = 1,
    max_velocity: float = np.inf,
    start: Callable[[Setup, np.random.Generator], Start] = parts.uniform_start,
    position: Callable[[Setup, Physics], ReadArray] = parts.root_x,
    health: Callable[[Setup, Physics], ReadMask] | None = None,
    contacts: Callable[[Setup, Physics], Contacts] | None = None,
    cost: Callable[[Setup, Physics], parts.ActionCost] = parts.action_cost,
) -> Task:
    """Progress along x, plus a reward for being healthy, minus the costs of controls and of contacts."""
    args, memory = setup.args, np.zeros(physics.num_envs)
    dt, weight = np.array(setup.dt), np.array(args["forward_reward_weight"], np.float64)
    read_x, control_cost = position(setup, physics), cost(setup, physics)
    is_healthy = health(setup, physics) if health else None
    touch = contacts(setup, physics) if contacts else Contacts((), lambda: memory, parts.nothing)
    qpos, qvel = _free_columns(setup, physics, num_root)
    limited, refresh = qvel, touch.refresh
    if max_velocity < np.inf:
        limited = np.empty_like(qvel)
        refresh = partial(parts.limit, qvel, -max_velocity, max_velocity, limited)

    def score(action: FloatArray) -> Score:
        gain = forward = (read_x() - memory) / dt * weight
        price = control = control_cost(action)
        terms, terminated = {"reward_forward": forward, "reward_ctrl": control}, None
        if is_healthy is not None:
            healthy = is_healthy()
            survive = terms["reward_survive"] = healthy * args["healthy_reward"]
            gain = forward + survive
            terminated = ~healthy if args["terminate_when_unhealthy"] else None
        if contacts is not None:
            contact = terms["reward_contact"] = touch.cost()
            price = control + contact
        return Score(gain + price, terms, terminated)

    def remember() -> None:
        memory[...] = read_x()

    return Task(
        columns=(qpos, limited, *touch.columns),
        draw=partial(start, setup),
        score=score,
        refresh=refresh,
        memory=memory,
        remember=remember,
    )


def _standup(setup: Setup, physics: Physics) -> Task:
    """Height of the torso over the time of one substep, minus the costs of controls and of impacts, plus 1."""
    height, substep = physics.field("qpos")[:, 2], setup.model.opt.timestep
    control_cost, touch = parts.ctrl_cost(setup, physics), parts.humanoid_contacts(setup, physics, "impact_cost")

    def score(action: FloatArray) -> Score:
        up, control, impact = height / substep, control_cost(action), touch.cost()
        terms = {"reward_linup": up, "reward_quadctrl": control, "reward_impact": impact}
        return Score(up + control + impact + 1, terms, None)

    columns = (*_free_columns(setup, physics, num_root=2), *touch.columns)
    return Task(columns, draw=partial(parts.uniform_start, setup), score=score)


def _reacher(setup: Setup, physics: Physics) -> Task:
    """The distance from fingertip to target and the cost of controls."""
    args, qpos, xpos = setup.args, physics.field("qpos"), physics.field("xpos")
    fingertip, target = (xpos[:, setup.body(name)] for name in ("fingertip", "target"))
    angles, cosines, sines = np.empty((3, physics.num_envs, 2))
    gap = np.empty((physics.num_envs, 3))
    control_cost = parts.action_cost(setup, physics, "reward_control_weight")

    def refresh() -> None:
        np.copyto(angles, qpos[:, :2])
        np.cos(angles, out=cosines)
        np.sin(angles, out=sines)
        np.subtract(fingertip, target, out=gap)

    def score(action: FloatArray) -> Score:
        distance, control = parts.norm(gap) * -args["reward_dist_weight"], control_cost(action)
        return Score(distance + control, {"reward_dist": distance, "reward_ctrl": control}, None)

    columns = (cosines, sines, qpos[:, 2:], physics.field("qvel")[:, :2], gap[:, :2])
    return Task(columns, draw=partial(parts.reacher_start, setup), score=score, refresh=refresh)


def _pusher(setup: Setup, physics: Physics) -> Task:
    """The distances from the object to the goal and to the tip of the arm, and the cost of controls."""
    args, xpos = setup.args, physics.field("xpos")
    tip, thing, goal = (xpos[:, setup.body(name)] for name in ("tips_arm", "object", "goal"))
    control_cost = parts.action_cost(setup, physics, "reward_control_weight")

    def score(action: FloatArray) -> Score:
        near = parts.norm(thing - tip) * -args["reward_near_weight"]
        distance = parts.norm(thing - goal) * -args["reward_dist_weight"]
        control = control_cost(action)
        terms = {"reward_dist": distance, "reward_ctrl": control, "reward_near": near}
        return Score(distance + control + near, terms, None)

    columns = (physics.field("qpos")[:, :7], physics.field("qvel")[:, :7], tip, thing, goal)
    return Task(columns, draw=partial(parts.pusher_start, setup), score=score)


def _pendulum(setup: Setup, physics: Physics) -> Task:
    """One for every step in which the pole stands."""
    qpos, qvel = physics.field("qpos"), physics.field("qvel")

    def score(action: FloatArray) -> Score:
        is_finite = parts.rows_all(np.isfinite(qpos)) & parts.rows_all(np.isfinite(qvel))
        stands = is_finite & ~(np.abs(qpos[:, 1]) > 0.2)
        survive = stands.astype(np.float64)
        return Score(survive, {"reward_survive": survive}, ~stands)

    return Task((qpos, qvel), draw=partial(parts.uniform_start, setup), score=score)


def _double_pendulum(setup: Setup, physics: Physics) -> Task:
    """A bonus while the tip is above 1, minus its distance from (0, 2) and the velocities of the joints."""
    qpos, qvel, force = (physics.field(name) for name in ("qpos", "qvel", "qfrc_constraint"))
    tip = physics.field("site_xpos")[:, 0]
    angles, sines, cosines = np.empty((3, physics.num_envs, qpos.shape[1] - 1))
    velocities, forces = np.empty_like(qvel), np.empty_like(force)

    def refresh() -> None:
        np.copyto(angles, qpos[:, 1:])
        np.sin(angles, out=sines)
        np.cos(angles, out=cosines)
        parts.limit(qvel, -10, 10, velocities)
        parts.limit(force, -10, 10, forces)

    def score(action: FloatArray) -> Score:
        x, y, v1, v2 = tip[:, 0], tip[:, 2], qvel[:, 1], qvel[:, 2]
        terminated = y <= 1
        survive = setup.args["healthy_reward"] * ~terminated
        reward = survive - (0.01 * x**2 + (y - 2) ** 2) - (0.001 * v1**2 + 0.005 * v2**2)
        return Score(reward, {"reward_survive": survive}, terminated)

    columns = (qpos[:, :1], sines, cosines, velocities, forces[:, :1])
    return Task(columns, draw=partial(parts.normal_start, setup), score=score, refresh=refresh)


_ant = partial(
    _locomotion,
    num_root=2,
    start=parts.normal_start,
    position=parts.main_body_x,
    health=parts.ant_health,
    contacts=parts.ant_contacts,
)
_humanoid = partial(
    _locomotion,
    num_root=2,
    position=parts.mass_centre_x,
    health=parts.humanoid_health,
    contacts=parts.humanoid_contacts,
    cost=parts.ctrl_cost,
)
_ROWS = {
    "half_cheetah_v5:HalfCheetahEnv": TaskRow(partial(_locomotion, start=parts.normal_start)),
    "swimmer_v5:SwimmerEnv": TaskRow(partial(_locomotion, num_root=2)),
    "hopper_v5:HopperEnv": TaskRow(partial(_locomotion, health=parts.hopper_health, max_velocity=10)),
    "walker2d_v5:Walker2dEnv": TaskRow(partial(_locomotion, health=parts.walker_health, max_velocity=10)),
    "ant_v5:AntEnv": TaskRow(_ant, has_contact_forces=True),
    "humanoid_v5:HumanoidEnv": TaskRow(_humanoid, has_contact_forces=True),
    "humanoidstandup_v5:HumanoidStandupEnv": TaskRow(_standup, has_contact_forces=True),
    "reacher_v5:ReacherEnv": TaskRow(_reacher),
    "pusher_v5:PusherEnv": TaskRow(_pusher),
    "inverted_pendulum_v5:InvertedPendulumEnv": TaskRow(_pendulum),
    "inverted_double_pendulum_v5:InvertedDoublePendulumEnv": TaskRow(_double_pendulum),
}
TASKS = {f"gymnasium.envs.mujoco.{entry_point}": row for entry_point, row in _ROWS.items()}
