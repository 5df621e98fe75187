"""What several MuJoCo tasks share: starts of episodes, positions, health, costs, each bound to live arrays.

The functions compute for K simulations what Gymnasium's classes compute for one, in the same order of operations.
Costs are negative terms, which changes no bit: -(w * x) == (-w) * x and a - b == a + (-b).

Shapes: K environments, A action.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import mujoco
import numpy as np
from numpy.typing import DTypeLike, NDArray

from ddp_ppo.envs.mujoco.physics import Float64Array, Physics, Start
from ddp_ppo.maths.rows import row_dots
from ddp_ppo.protocols import BoolArray

Draw = Callable[[np.random.Generator], Start]

_IS_NUMPY_1 = np.__version__.startswith("1.")
ACTION_COST = np.float64 if _IS_NUMPY_1 else np.float32  # of a float32 sum times a Python number, as Gymnasium has it


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


def nothing() -> None:
    """Where there is nothing to refresh."""


class Live(NamedTuple):
    """An array that follows the simulations, and what computes it anew; fields of MuJoCo need no computing."""

    array: NDArray[Any]
    refresh: Callable[[], None] = nothing


class Contacts(NamedTuple):
    """What Ant and the humanoids read besides positions and velocities."""

    columns: tuple[Float64Array, ...] = ()  # of the observation
    cost: Live | None = None  # [K], the term of the reward where it has one; refreshes the columns too


def together(*calls: Callable[[], None]) -> Callable[[], None]:
    """One call for those that do something."""
    active = [call for call in calls if call is not nothing]

    def call_all() -> None:
        for call in active:
            call()

    return call_all if len(active) > 1 else active[0] if active else nothing


def limited(source: Float64Array, low: float, high: float) -> Live:
    """`np.clip` at a third of its overhead."""
    out = np.empty_like(source)
    return Live(out, lambda: _limit(source, low, high, out))


def _limit(source: Float64Array, low: float, high: float, out: Float64Array) -> None:
    np.minimum(np.maximum(source, low, out=out), high, out=out)


def rows_all(mask: BoolArray) -> BoolArray:
    """Whether all of each row holds."""
    result: BoolArray = np.logical_and.reduce(mask, axis=1)
    return result


def norm(vectors: Float64Array) -> Float64Array:
    """Lengths of the rows, by the dot product that `np.linalg.norm` of one vector takes (`norm(axis=1)` does not)."""
    lengths: Float64Array = np.sqrt(row_dots(vectors, vectors))
    return lengths


def by_body(field: Float64Array, *, has_world: bool) -> Float64Array:
    """A field [K, bodies, n] with or without the world body, as a view [K, n of all bodies]."""
    return field[:, 0 if has_world else 1 :].reshape(len(field), -1)


def squared(weight: float, dtype: DTypeLike) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Returns x -> weight times the sum of squares over the last axis, added up in the order of `np.sum`.

    Most tasks cost the float32 actions; Humanoid's cost reads MuJoCo's float64 controls, which are 0 after MuJoCo has
    reset an unstable simulation.
    """
    # a 0-d array is 0.2 us faster to multiply with than a Python number; NumPy 1 takes no notice of its type
    factor = np.array(weight, dtype, ndmin=int(_IS_NUMPY_1))

    def cost(values: NDArray[Any]) -> NDArray[Any]:
        product: NDArray[Any] = np.add.reduce(np.square(values), axis=-1) * factor
        return product

    return cost


# Starts: the draws come in the same order as in Gymnasium's reset_model.


def uniform_start(setup: Setup) -> Draw:
    """Uniform noise in the range of the argument reset_noise_scale on positions and velocities."""
    nq, nv, scale = setup.model.nq, setup.model.nv, setup.args["reset_noise_scale"]

    def draw(rng: np.random.Generator) -> Start:
        qpos = setup.init_qpos + rng.uniform(-scale, scale, nq)
        return qpos, setup.init_qvel + rng.uniform(-scale, scale, nv)

    return draw


def normal_start(setup: Setup) -> Draw:
    """Uniform noise on positions, normal noise on velocities."""
    nq, nv, scale = setup.model.nq, setup.model.nv, setup.args["reset_noise_scale"]

    def draw(rng: np.random.Generator) -> Start:
        qpos = setup.init_qpos + rng.uniform(-scale, scale, nq)
        return qpos, setup.init_qvel + scale * rng.standard_normal(nv)

    return draw


def reacher_start(setup: Setup) -> Draw:
    """A target somewhere in a disc of radius 0.2."""
    nq, nv = setup.model.nq, setup.model.nv

    def draw(rng: np.random.Generator) -> Start:
        qpos = rng.uniform(-0.1, 0.1, nq) + setup.init_qpos
        goal = rng.uniform(-0.2, 0.2, 2)
        while np.linalg.norm(goal) >= 0.2:
            goal = rng.uniform(-0.2, 0.2, 2)
        qpos[-2:] = goal
        qvel = setup.init_qvel + rng.uniform(-0.005, 0.005, nv)
        qvel[-2:] = 0
        return qpos, qvel

    return draw


def pusher_start(setup: Setup) -> Draw:
    """An object in a rectangle, at least 0.17 away from the goal."""
    nv = setup.model.nv

    def draw(rng: np.random.Generator) -> Start:
        cylinder = np.zeros(2)
        while np.linalg.norm(cylinder) <= 0.17:
            cylinder[:] = rng.uniform(-0.3, 0, 1)[0], rng.uniform(-0.2, 0.2, 1)[0]
        qpos = setup.init_qpos.copy()
        qpos[-4:-2] = cylinder
        qpos[-2:] = 0
        qvel = setup.init_qvel + rng.uniform(-0.005, 0.005, nv)
        qvel[-4:] = 0
        return qpos, qvel

    return draw


# Where the body is, along x. Body frames and centres of mass lag one substep behind qpos, as in Gymnasium.


def root_x(setup: Setup, physics: Physics) -> Live:
    """The first position coordinate."""
    return Live(physics.field("qpos")[:, 0])


def main_body_x(setup: Setup, physics: Physics) -> Live:
    """The frame of the body that the argument main_body names."""
    return Live(physics.field("xpos")[:, setup.body(setup.args["main_body"]), 0])


def mass_centre_x(setup: Setup, physics: Physics) -> Live:
    """The centre of mass of all bodies."""
    mass, centres = setup.model.body_mass.copy(), physics.field("xipos")
    total, x = mass.sum(), np.empty(physics.num_envs)

    def refresh() -> None:
        np.divide(np.einsum("b,kbj->kj", mass, centres)[:, 0], total, out=x)

    return Live(x, refresh)


# Who is healthy


def within(parts: Sequence[Float64Array], bounds: Sequence[tuple[float, float]]) -> Live:
    """Whether every value of every part [K, n] lies strictly between the part's bounds; False for NaN."""
    num_envs, widths = len(parts[0]), [part.shape[1] for part in parts]
    # The bounds are repeated for each simulation: broadcasting takes three times as long.
    low, high = (np.tile(np.repeat([bound[side] for bound in bounds], widths), (num_envs, 1)) for side in (0, 1))
    state, is_inside = np.empty((num_envs, sum(widths))), np.ones(num_envs, np.bool_)
    inside, below = np.empty((2, *state.shape), np.bool_)

    def refresh() -> None:
        np.concatenate(parts, axis=1, out=state)
        np.less(low, state, out=inside)
        np.less(state, high, out=below)
        np.logical_and(inside, below, out=inside)
        np.logical_and.reduce(inside, axis=1, out=is_inside)

    return Live(is_inside, refresh)


def hopper_health(setup: Setup, physics: Physics) -> Live:
    """All coordinates but the first two in range, the torso high and upright enough."""
    qpos, qvel, args = physics.field("qpos"), physics.field("qvel"), setup.args
    names = ("healthy_state_range", "healthy_state_range", "healthy_z_range", "healthy_angle_range")
    return within((qpos[:, 2:], qvel, qpos[:, 1:2], qpos[:, 2:3]), [args[name] for name in names])


def walker_health(setup: Setup, physics: Physics) -> Live:
    """The torso high and upright enough."""
    qpos, args = physics.field("qpos"), setup.args
    return within((qpos[:, 1:2], qpos[:, 2:3]), [args["healthy_z_range"], args["healthy_angle_range"]])


def ant_health(setup: Setup, physics: Physics) -> Live:
    """A finite state and the torso's height in range, the bounds included."""
    qpos, qvel = physics.field("qpos"), physics.field("qvel")
    low, high = setup.args["healthy_z_range"]
    is_healthy = np.ones(physics.num_envs, np.bool_)

    def refresh() -> None:
        is_finite = rows_all(np.isfinite(qpos)) & rows_all(np.isfinite(qvel))
        np.logical_and(is_finite, (low <= qpos[:, 2]) & (qpos[:, 2] <= high), out=is_healthy)

    return Live(is_healthy, refresh)


def humanoid_health(setup: Setup, physics: Physics) -> Live:
    """The torso's height in range."""
    return within((physics.field("qpos")[:, 2:3],), [setup.args["healthy_z_range"]])


# Contact forces


def ant_contacts(setup: Setup, physics: Physics) -> Contacts:
    """Forces limited to contact_force_range, in the observation as in the cost."""
    forces = limited(physics.field("cfrc_ext"), *setup.args["contact_force_range"])
    price, cost = squared(-setup.args["contact_cost_weight"], np.float64), np.empty(physics.num_envs)
    flat = by_body(forces.array, has_world=True)

    def refresh() -> None:
        forces.refresh()
        cost[...] = price(flat)

    is_seen = setup.args["include_cfrc_ext_in_observation"]
    return Contacts((by_body(forces.array, has_world=False),) if is_seen else (), Live(cost, refresh))


def humanoid_contacts(setup: Setup, physics: Physics) -> Contacts:
    """What the arguments ask for, with a cost."""
    return Contacts(humanoid_columns(setup, physics), humanoid_cost(setup, physics, "contact_cost"))


def humanoid_columns(setup: Setup, physics: Physics) -> tuple[Float64Array, ...]:
    """The inertias, velocities and forces that the arguments ask for, without those of the world and the root."""
    names = ("cinert", "cvel", "qfrc_actuator", "cfrc_ext")
    fields = {name: physics.field(name) for name in names if setup.args[f"include_{name}_in_observation"]}
    return tuple(
        field[:, 6:] if name == "qfrc_actuator" else by_body(field, has_world=False) for name, field in fields.items()
    )


def humanoid_cost(setup: Setup, physics: Physics, name: str) -> Live:
    """The limited cost of contact forces as they are; `name` is that of its arguments."""
    low, high = setup.args[f"{name}_range"]
    forces = by_body(physics.field("cfrc_ext"), has_world=True)
    price, cost = squared(setup.args[f"{name}_weight"], np.float64), np.empty(physics.num_envs)

    def refresh() -> None:
        _limit(price(forces), low, high, cost)
        np.negative(cost, out=cost)

    return Live(cost, refresh)
