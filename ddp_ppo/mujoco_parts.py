"""What several MuJoCo tasks share: starts of episodes, positions, health, costs, each bound to live arrays.

The functions compute for K simulations what Gymnasium's classes compute for one, in the same order of operations.
Costs are negative terms, which changes no bit: -(w * x) == (-w) * x and a - b == a + (-b).

Shapes: K environments, A action.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import mujoco
import numpy as np
from numpy.typing import DTypeLike, NDArray

from ddp_ppo.mujoco_physics import Float64Array, Physics
from ddp_ppo.protocols import BoolArray, FloatArray

Start = tuple[Float64Array, Float64Array]  # qpos [nq], qvel [nv]
ReadArray = Callable[[], Float64Array]
ReadMask = Callable[[], BoolArray]
ActionCost = Callable[[FloatArray], NDArray[Any]]  # actions [K, A] -> reward term [K]


@dataclass(frozen=True)
class Setup:
    """One task with its model and arguments, as Gymnasium's own class has them."""

    model: mujoco.MjModel
    dt: float  # seconds of one step of the environment
    init_qpos: Float64Array
    init_qvel: Float64Array
    args: Mapping[str, Any]  # every argument of the class by name, defaults included

    def body(self, name: str | int) -> int:
        """The id of a body."""
        return int(self.model.body(name).id)


class Contacts(NamedTuple):
    """What Ant and the humanoids read besides positions and velocities."""

    columns: tuple[Float64Array, ...]  # of the observation
    cost: ReadArray  # [K]
    refresh: Callable[[], None]  # to be called before the other two are read


def nothing() -> None:
    """Where there is nothing to refresh or to remember."""


def limit(source: Float64Array, low: float, high: float, out: Float64Array) -> None:
    """`np.clip` at a third of its overhead."""
    np.minimum(np.maximum(source, low, out=out), high, out=out)


def within(values: Float64Array, bounds: tuple[float, float]) -> BoolArray:
    """Strictly between the bounds; False for NaN."""
    return (bounds[0] < values) & (values < bounds[1])


def rows_all(mask: BoolArray) -> BoolArray:
    """Whether all of each row holds."""
    result: BoolArray = np.logical_and.reduce(mask, axis=1)
    return result


def norm(vectors: Float64Array) -> Float64Array:
    """Lengths of the rows, by the dot product that `np.linalg.norm` of one vector takes (`norm(axis=1)` does not)."""
    lengths: Float64Array = np.sqrt(np.vecdot(vectors, vectors))
    return lengths


def without_world(field: Float64Array) -> Float64Array:
    """A field [K, bodies, n] without the world body, as a view [K, (bodies - 1) * n]."""
    return field[:, 1:].reshape(len(field), -1)


def squared(weight: float, shape: tuple[int, ...], dtype: DTypeLike) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Returns x -> weight times the sum of squares of x[k], added up in the order of `np.sum` over one x[k]."""
    squares = np.empty(shape, dtype)
    rows = squares.reshape(shape[0], -1)
    factor = np.array(weight, dtype)  # a 0-d array is 0.2 us faster to multiply with than a Python number

    def cost(values: NDArray[Any]) -> NDArray[Any]:
        np.square(values, out=squares)
        product: NDArray[Any] = np.add.reduce(rows, axis=1) * factor
        return product

    return cost


def action_cost(setup: Setup, physics: Physics, weight: str = "ctrl_cost_weight") -> ActionCost:
    """The cost of the float32 actions."""
    return squared(-setup.args[weight], physics.ctrl.shape, np.float32)


def ctrl_cost(setup: Setup, physics: Physics) -> ActionCost:
    """The cost of MuJoCo's float64 controls, which are 0 after MuJoCo has reset an unstable simulation."""
    cost = squared(-setup.args["ctrl_cost_weight"], physics.ctrl.shape, np.float64)
    return lambda action: cost(physics.ctrl)


# Starts: the draws come in the same order as in Gymnasium's reset_model.


def uniform_noise(setup: Setup, rng: np.random.Generator, size: int) -> Float64Array:
    """Noise in the range of the argument reset_noise_scale."""
    scale = setup.args["reset_noise_scale"]
    return rng.uniform(low=-scale, high=scale, size=size)


def uniform_start(setup: Setup, rng: np.random.Generator) -> Start:
    """Uniform noise on positions and velocities."""
    qpos = setup.init_qpos + uniform_noise(setup, rng, setup.model.nq)
    return qpos, setup.init_qvel + uniform_noise(setup, rng, setup.model.nv)


def normal_start(setup: Setup, rng: np.random.Generator) -> Start:
    """Uniform noise on positions, normal noise on velocities."""
    qpos = setup.init_qpos + uniform_noise(setup, rng, setup.model.nq)
    return qpos, setup.init_qvel + setup.args["reset_noise_scale"] * rng.standard_normal(setup.model.nv)


def reacher_start(setup: Setup, rng: np.random.Generator) -> Start:
    """A target somewhere in a disc of radius 0.2."""
    qpos = rng.uniform(low=-0.1, high=0.1, size=setup.model.nq) + setup.init_qpos
    goal = rng.uniform(low=-0.2, high=0.2, size=2)
    while np.linalg.norm(goal) >= 0.2:
        goal = rng.uniform(low=-0.2, high=0.2, size=2)
    qpos[-2:] = goal
    qvel = setup.init_qvel + rng.uniform(low=-0.005, high=0.005, size=setup.model.nv)
    qvel[-2:] = 0
    return qpos, qvel


def pusher_start(setup: Setup, rng: np.random.Generator) -> Start:
    """An object in a rectangle, at least 0.17 away from the goal."""

    def draw() -> Float64Array:
        return np.concatenate([rng.uniform(low=-0.3, high=0, size=1), rng.uniform(low=-0.2, high=0.2, size=1)])

    cylinder = draw()
    while np.linalg.norm(cylinder) <= 0.17:
        cylinder = draw()
    qpos = setup.init_qpos.copy()
    qpos[-4:-2] = cylinder
    qpos[-2:] = 0
    qvel = setup.init_qvel + rng.uniform(low=-0.005, high=0.005, size=setup.model.nv)
    qvel[-4:] = 0
    return qpos, qvel


# Where the body is, along x. Body frames and centres of mass lag one substep behind qpos, as in Gymnasium.


def root_x(setup: Setup, physics: Physics) -> ReadArray:
    """The first position coordinate."""
    x = physics.field("qpos")[:, 0]
    return lambda: x


def main_body_x(setup: Setup, physics: Physics) -> ReadArray:
    """The frame of the body that the argument main_body names."""
    x = physics.field("xpos")[:, setup.body(setup.args["main_body"]), 0]
    return lambda: x


def mass_centre_x(setup: Setup, physics: Physics) -> ReadArray:
    """The centre of mass of all bodies."""
    mass, centres = setup.model.body_mass.copy(), physics.field("xipos")
    total = mass.sum()
    return lambda: np.einsum("b,kbj->kj", mass, centres)[:, 0] / total


# Who is healthy


def hopper_health(setup: Setup, physics: Physics) -> ReadMask:
    """All coordinates but the first two in range, the torso high and upright enough."""
    qpos, qvel, args = physics.field("qpos"), physics.field("qvel"), setup.args
    state = np.empty((physics.num_envs, qpos.shape[1] - 2 + qvel.shape[1]))

    def healthy() -> BoolArray:
        np.concatenate((qpos[:, 2:], qvel), axis=1, out=state)
        is_sane = rows_all(within(state, args["healthy_state_range"]))
        is_upright = within(qpos[:, 2], args["healthy_angle_range"])
        return is_sane & is_upright & within(qpos[:, 1], args["healthy_z_range"])

    return healthy


def walker_health(setup: Setup, physics: Physics) -> ReadMask:
    """The torso high and upright enough."""
    qpos, args = physics.field("qpos"), setup.args
    return lambda: within(qpos[:, 1], args["healthy_z_range"]) & within(qpos[:, 2], args["healthy_angle_range"])


def ant_health(setup: Setup, physics: Physics) -> ReadMask:
    """A finite state and the torso's height in range, the bounds included."""
    qpos, qvel = physics.field("qpos"), physics.field("qvel")
    low, high = setup.args["healthy_z_range"]

    def healthy() -> BoolArray:
        is_finite = rows_all(np.isfinite(qpos)) & rows_all(np.isfinite(qvel))
        is_in_range: BoolArray = (low <= qpos[:, 2]) & (qpos[:, 2] <= high)
        return is_finite & is_in_range

    return healthy


def humanoid_health(setup: Setup, physics: Physics) -> ReadMask:
    """The torso's height in range."""
    height, bounds = physics.field("qpos")[:, 2], setup.args["healthy_z_range"]
    return lambda: within(height, bounds)


# Contact forces


def ant_contacts(setup: Setup, physics: Physics) -> Contacts:
    """Forces limited to contact_force_range, in the observation as in the cost."""
    forces = physics.field("cfrc_ext")
    limited = np.empty_like(forces)
    low, high = setup.args["contact_force_range"]
    cost = squared(-setup.args["contact_cost_weight"], forces.shape, np.float64)
    return Contacts(
        columns=(without_world(limited),) if setup.args["include_cfrc_ext_in_observation"] else (),
        cost=lambda: cost(limited),
        refresh=lambda: limit(forces, low, high, limited),
    )


def humanoid_contacts(setup: Setup, physics: Physics, cost_name: str = "contact_cost") -> Contacts:
    """Forces as they are, a limited cost, and the inertias, velocities and forces that the arguments ask for."""
    low, high = setup.args[f"{cost_name}_range"]
    forces = physics.field("cfrc_ext")
    cost = squared(setup.args[f"{cost_name}_weight"], forces.shape, np.float64)
    names = ("cinert", "cvel", "qfrc_actuator", "cfrc_ext")
    fields = {name: physics.field(name) for name in names if setup.args[f"include_{name}_in_observation"]}
    return Contacts(
        columns=tuple(
            field[:, 6:] if name == "qfrc_actuator" else without_world(field) for name, field in fields.items()
        ),
        cost=lambda: -np.minimum(np.maximum(cost(forces), low), high),
        refresh=nothing,
    )
