"""What the columns of an observation and of an action are: name, unit, source and frame, where one can know.

Known are Gymnasium's MuJoCo tasks (mujoco/columns.py), its classic control tasks, and every environment that says it
itself, in its `metadata`: under "obs_columns" and "action_columns" a row (name[, unit[, source[, frame]]]) for each
column. A column of which nothing is known is called obs[3], action[0] or choice 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from gymnasium.spaces import Discrete

from ddp_ppo.envs.build import closed_in_the_end, make_batch_env, own_class_path
from ddp_ppo.envs.discrete_actions import choice_columns
from ddp_ppo.envs.gymnasium_env import build_env
from ddp_ppo.envs.multi_task import task_ids
from ddp_ppo.envs.spaces import NUMBERS, action_grid
from ddp_ppo.errors import EnvError, describe_cause
from ddp_ppo.protocols import Column, EnvSpec

__all__ = ["Column", "Interface", "action_columns", "describe_interface", "obs_columns"]


class Interface(NamedTuple):
    """What goes in and out of a policy, and how often.

    Attributes:
        obs: D columns, left to right.
        action: A columns; of a discrete action its choices.
        dt_seconds: simulated seconds of one step, None where the environment does not say.
        frame_skip: physics steps in one step, None likewise.
        obs_values: the value of a Discrete observation that each column stands for, by holding 1; empty for others.
        choices: the Box action that each choice stands for, where discretize_actions has made one of it.
    """

    obs: tuple[Column, ...]
    action: tuple[Column, ...]
    dt_seconds: float | None = None
    frame_skip: int | None = None
    obs_values: tuple[int, ...] = ()
    choices: tuple[tuple[float, ...], ...] = ()


def obs_columns(env_arguments: Mapping[str, Any]) -> list[Column]:
    """The observation's columns; see `describe_interface`."""
    return list(describe_interface(env_arguments).obs)


def action_columns(env_arguments: Mapping[str, Any]) -> list[Column]:
    """The action's columns; see `describe_interface`."""
    return list(describe_interface(env_arguments).action)


def describe_interface(env_arguments: Mapping[str, Any]) -> Interface:
    """Builds the environment (of several tasks the first) once, reads what it is, and closes it.

    Args:
        env_arguments: keyword arguments of `envs.make_batch_env` but num_envs.

    Raises:
        EnvError: it cannot be built, or its metadata has another number of columns than it has itself.
    """
    arguments = {"env_kwargs": {}, "backend": "auto", **env_arguments}
    num_bins = arguments.pop("discretize_actions", None)
    arguments["env_id"] = env_id = task_ids(arguments["env_id"])[0]
    with closed_in_the_end(make_batch_env(num_envs=1, **arguments), env_id) as batch:
        spec, own = batch.spec, batch
    if own_class_path(env_id, arguments["backend"]) is not None:
        interface = _fitted(Interface(*_columns_of_metadata(own), *_timing(own)), spec)
    else:
        env, _ = build_env(env_id, arguments["env_kwargs"])
        with closed_in_the_end(env, env_id):
            interface = _fitted(known_interface(env), spec)
    if num_bins is None:
        return interface
    grid = action_grid(spec.action.low.tolist(), spec.action.high.tolist(), num_bins)
    choices = tuple(tuple(row) for row in grid.tolist())
    return interface._replace(action=choice_columns(interface.action, grid), choices=choices)


def known_interface(env: Any) -> Interface:
    """What is known of one of Gymnasium's environments, perhaps nothing.

    Raises:
        EnvError: its metadata describes a column in another way.
    """
    entry_point = str(getattr(env.spec, "entry_point", ""))
    own = env.unwrapped
    timing = _timing(own)
    if own is env and entry_point.startswith("gymnasium.envs.mujoco."):  # a wrapper may change what is observed
        from ddp_ppo.envs.mujoco.columns import action_columns, obs_columns  # MuJoCo is not loaded for CartPole

        return Interface(tuple(obs_columns(env)), tuple(action_columns(env.model)), *timing)
    if own is env and entry_point in _CLASSIC:
        return Interface(*_CLASSIC[entry_point], *timing)
    return _with_values(Interface(*_columns_of_metadata(env), *timing), env.observation_space)


def _columns_of_metadata(env: Any) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    """The columns of observation and action that an environment names in its metadata, perhaps none."""
    metadata = getattr(env, "metadata", None)
    metadata = metadata if isinstance(metadata, Mapping) else {}
    try:
        obs, action = (
            tuple(Column(row) if isinstance(row, str) else Column(*row) for row in metadata.get(key) or ())
            for key in ("obs_columns", "action_columns")
        )
    except TypeError as error:
        raise EnvError(
            f"metadata of {type(env).__name__}: a column is not (name, ...): {describe_cause(error)}"
        ) from error
    return obs, action


def _timing(env: Any) -> tuple[float | None, int | None]:
    """Simulated seconds and physics steps of one step, where attributes hold them: positive numbers, not methods."""
    seconds: Any = next((getattr(env, name) for name in ("dt", "tau") if hasattr(env, name)), None)
    skip = getattr(env, "frame_skip", None)
    has_seconds = isinstance(seconds, NUMBERS) and 0 < float(seconds) < math.inf
    return float(seconds) if has_seconds else None, skip if isinstance(skip, int) and skip > 0 else None


def _with_values(interface: Interface, space: Any) -> Interface:
    """Says which value each column of a Discrete observation stands for, in a name where it has none."""
    if not isinstance(space, Discrete):
        return interface
    values = tuple(range(int(space.start), int(space.start + space.n)))
    return interface._replace(
        obs=interface.obs or tuple(Column(f"is {value}", "1") for value in values), obs_values=values
    )


def _fitted(interface: Interface, spec: EnvSpec) -> Interface:
    """Fills in what is not known and checks what is."""
    obs = interface.obs or tuple(Column(f"obs[{index}]") for index in range(spec.obs_size))
    names = spec.action.column_names()
    action = interface.action or tuple(map(Column, names))
    for key, columns, size in (("obs_columns", obs, spec.obs_size), ("action_columns", action, len(names))):
        if len(columns) != size:
            raise EnvError(f"{spec.env_id}: metadata {key!r} has {len(columns)} columns, the environment has {size}")
    return interface._replace(obs=obs, action=action)


def _rows(*rows: tuple[str, str]) -> tuple[Column, ...]:
    return tuple(Column(*row) for row in rows)


_MOUNTAIN = _rows(("car position", ""), ("car velocity", ""))
# Source: the docstrings and equations of the classes in gymnasium.envs.classic_control.
_CLASSIC = {
    f"gymnasium.envs.classic_control.{entry_point}": columns
    for entry_point, columns in {
        "cartpole:CartPoleEnv": (
            _rows(
                ("cart position", "m"),
                ("cart velocity", "m/s"),
                ("pole angle", "rad"),
                ("pole angular velocity", "rad/s"),
            ),
            _rows(("push left", ""), ("push right", "")),
        ),
        "acrobot:AcrobotEnv": (
            _rows(
                ("joint 1 cos", "1"),
                ("joint 1 sin", "1"),
                ("joint 2 cos", "1"),
                ("joint 2 sin", "1"),
                ("joint 1 angular velocity", "rad/s"),
                ("joint 2 angular velocity", "rad/s"),
            ),
            _rows(("torque -1", "N m"), ("torque 0", "N m"), ("torque 1", "N m")),
        ),
        "mountain_car:MountainCarEnv": (_MOUNTAIN, _rows(("push left", ""), ("do not push", ""), ("push right", ""))),
        "continuous_mountain_car:Continuous_MountainCarEnv": (_MOUNTAIN, _rows(("force", ""))),
        "pendulum:PendulumEnv": (
            _rows(("pendulum cos", "1"), ("pendulum sin", "1"), ("pendulum angular velocity", "rad/s")),
            _rows(("torque", "N m")),
        ),
    }.items()
}
