"""What a vectorised MuJoCo task is made of, as plain data; `task.py` runs it.

Every `read` is a function of the task and returns an array over its K environments; what a task offers it is listed in
`MujocoTask`. Times are in seconds and become whole control steps.

Shapes: K environments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mujoco
from numpy.typing import NDArray

Read = Callable[[Any], NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class Group:
    """A named group of columns of the observation.

    Attributes:
        name: the part's name, which a policy's view of the observation is made of.
        columns: what each column is called.
        unit: of all of them: "rad", "m/s", "1" for a number without a unit.
        read: the true values, [K, n], or [K] for a single column.
        noise: half the width of the uniform noise that is added in every step, in the group's unit.
        frame: what the values are measured in, in words.
        mirror: for each column the column of this group, and the sign, that it becomes if left and right are swapped;
            empty if nothing changes.
        is_privileged: whether a robot cannot measure it, so that a critic alone should see it.
    """

    name: str
    columns: tuple[str, ...]
    unit: str
    read: Read
    noise: float = 0.0
    frame: str = ""
    mirror: tuple[tuple[int, float], ...] = ()
    is_privileged: bool = False


@dataclass(frozen=True, kw_only=True)
class Term:
    """A named term of the reward.

    Attributes:
        name: the metric's name.
        weight: of `read` in the reward of one second; the reward of a step is `weight * read * seconds of a step`.
        read: [K].
    """

    name: str
    weight: float
    read: Read


@dataclass(frozen=True, kw_only=True)
class End:
    """A named reason for an episode's end other than its time limit.

    Attributes:
        name: the metric's name.
        read: bool [K].
        is_outside: whether the task itself did not end (the robot left the map), so that the episode is truncated.
    """

    name: str
    read: Read
    is_outside: bool = False


@dataclass(frozen=True, kw_only=True)
class Vary:
    """A property of the model that each environment draws at the start of every episode, uniformly.

    Attributes:
        name: the drawn values are `task.varied[name]`, [K].
        fields: fields of MjModel that follow it, such as ("body_mass",). A task with "actuator_delay" gets buffers for
            delayed controls, in seconds.
        low, high: limits of the draw.
        rows: indices along the field's first axis; empty for all.
        column: an index along its second axis; None for all.
        how: "set" replaces the model's value, "add" adds to it, "scale" multiplies it.
    """

    name: str
    fields: tuple[str, ...]
    low: float
    high: float
    rows: tuple[int, ...] = ()
    column: int | None = None
    how: str = "set"


@dataclass(frozen=True, kw_only=True)
class Pushes:
    """Horizontal forces on a body at random times.

    Attributes:
        body: its name.
        max_force: largest component along each axis in N; each is drawn uniformly.
        seconds: how long a push lasts.
        interval_seconds: limits of the time between two pushes.
    """

    body: str
    max_force: float
    seconds: float = 0.1
    interval_seconds: tuple[float, float] = (4.0, 8.0)


@dataclass(frozen=True, kw_only=True)
class Commands:
    """What the robot is asked to do, drawn again from time to time.

    Attributes:
        columns: name of each value.
        low, high: limits of the uniform draw.
        first_fraction: share of these limits at progress 0; all of them from progress 1 on.
        interval_seconds: limits of the time between two draws.
        neutral_probability: how often all values are 0.
        schedule: rows (seconds, *values) that are followed from each episode's start, again and again, in place of
            random ones; empty for random ones.
    """

    columns: tuple[str, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    first_fraction: float = 1.0
    interval_seconds: tuple[float, float] = (5.0, 10.0)
    neutral_probability: float = 0.1
    schedule: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Design:
    """A complete task.

    Attributes:
        model: the model that is simulated.
        physics_steps: steps of the model in a control step.
        episode_seconds: time limit.
        obs: groups of the observation, from left to right.
        rewards: terms of the reward.
        ends: reasons for an episode's end.
        home: controls [A] of the action 0; empty for 0.
        action_scale: what an action of 1 adds to each control, [A]; empty for 1.
        action_unit: of the controls, such as "rad"; empty if nothing is said.
        vary: the domain randomisation.
        pushes, commands: None if the task has none.
        action_mirror: for each action the action, and the sign, that it becomes if left and right are swapped; empty
            if the task declares no symmetry.
    """

    model: mujoco.MjSpec
    physics_steps: int
    episode_seconds: float
    obs: tuple[Group, ...]
    rewards: tuple[Term, ...]
    ends: tuple[End, ...] = ()
    home: tuple[float, ...] = ()
    action_scale: tuple[float, ...] = ()
    action_unit: str = ""
    vary: tuple[Vary, ...] = ()
    pushes: Pushes | None = None
    commands: Commands | None = None
    action_mirror: tuple[tuple[int, float], ...] = ()
