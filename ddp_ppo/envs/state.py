"""Exact state of one Gymnasium environment as arrays and plain values, so that an interrupted episode can go on.

Covers Gymnasium's own MuJoCo and classic-control environments and every environment that offers
`get_state() -> dict` and `set_state(dict)`; nothing is ever pickled, and what would not come back as it was is refused.
The random generator of the environment is saved beside it in every case.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ddp_ppo.errors import EnvError
from ddp_ppo.protocols import PlainState

# attributes that hold the state between two steps, by class name in gymnasium.envs.classic_control
_CLASSIC_CONTROL = {
    "CartPoleEnv": ("state", "steps_beyond_terminated"),
    "PendulumEnv": ("state", "last_u"),
    "AcrobotEnv": ("state",),
    "MountainCarEnv": ("state",),
    "Continuous_MountainCarEnv": ("state",),
}
# not part of MuJoCo's state, but read by the next step's reward (Ant, Humanoid) before they are computed anew
_LAGGING_FIELDS = ("xpos", "xipos")
# What a checkpoint gives back as it was: these types (NumPy's as Python's of the same values), integers up to so many
# bits, and arrays of the dtypes that torch has too, by their characters (no longdouble, text, objects or records).
_PLAIN_TYPES = frozenset({type(None), bool, int, float, str, np.bool_, np.int64, np.float64})
_MAX_BITS = 2000
_DTYPES = frozenset("?bBhHiIlLqefdFD")


class StateAccess(NamedTuple):
    """How the state of one kind of environment is read and written."""

    save: Callable[[Any], PlainState]
    restore: Callable[[Any, PlainState], None]


def state_access(env: Any) -> StateAccess | None:
    """Returns how to save `env`, or None: an unknown class or wrapper may hide state."""
    if all(callable(getattr(env, name, None)) for name in ("get_state", "set_state")):
        return StateAccess(_save_own, _restore_own)
    module, name = type(env).__module__, type(env).__name__
    if module.startswith("gymnasium.envs.mujoco."):
        return StateAccess(_save_mujoco, _restore_mujoco)
    if module.startswith("gymnasium.envs.classic_control.") and name in _CLASSIC_CONTROL:
        return StateAccess(_save_classic, _restore_classic)
    return None


def save_env(access: StateAccess, env: Any) -> PlainState:
    """State and random generator of one environment."""
    return {"rng": env.unwrapped.np_random.bit_generator.state, "env": access.save(env)}


def restore_env(access: StateAccess, env: Any, state: PlainState) -> None:
    """Puts one environment into a saved state."""
    env.unwrapped.np_random = generator_from(state["rng"])
    access.restore(env, state["env"])


def generator_from(rng_state: PlainState) -> np.random.Generator:
    """A new generator that continues from `Generator.bit_generator.state`."""
    bit_generator = getattr(np.random, rng_state["bit_generator"])()
    bit_generator.state = rng_state
    return np.random.Generator(bit_generator)


def _save_own(env: Any) -> PlainState:
    state = env.get_state()
    require_plain(state, f"{type(env).__name__}.get_state()")
    return {"state": state}


def _restore_own(env: Any, state: PlainState) -> None:
    env.set_state(state["state"])


def require_plain(value: Any, where: str) -> None:
    """Raises EnvError with the place in a state that a checkpoint would not give back as it is."""
    kind = type(value)  # exactly: an enum, a named tuple or a masked array would come back as something else
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str:
                require_plain(key, f"a key of {where}")
            require_plain(item, f"{where}[{key!r}]")
    elif kind in (list, tuple):
        for index, item in enumerate(value):
            require_plain(item, f"{where}[{index}]")
    elif kind is np.ndarray:
        if value.dtype.char not in _DTYPES or not value.dtype.isnative:
            raise EnvError(f"{where} is an array of {value.dtype}; only native numbers and bools can be saved")
    elif kind not in _PLAIN_TYPES:
        raise EnvError(f"{where} is a {kind.__name__}; only arrays and plain values can be saved")
    elif kind is int and value.bit_length() > _MAX_BITS:
        raise EnvError(f"{where} is an integer of {value.bit_length()} bits; at most {_MAX_BITS} can be saved")


def _save_classic(env: Any) -> PlainState:
    values = {name: getattr(env, name, None) for name in _CLASSIC_CONTROL[type(env).__name__]}
    return {
        name: np.array(value) if isinstance(value, (tuple, np.ndarray, np.generic)) else value
        for name, value in values.items()
    }


def _restore_classic(env: Any, state: PlainState) -> None:
    for name, value in state.items():
        setattr(env, name, value)  # these classes replace their state and never write into it


def _save_mujoco(env: Any) -> PlainState:
    import mujoco  # here, not above: environments without physics do not pay for it

    physics = np.empty(mujoco.mj_stateSize(env.model, mujoco.mjtState.mjSTATE_INTEGRATION))
    mujoco.mj_getState(env.model, env.data, physics, mujoco.mjtState.mjSTATE_INTEGRATION)
    return {"physics": physics, **{name: getattr(env.data, name).copy() for name in _LAGGING_FIELDS}}


def _restore_mujoco(env: Any, state: PlainState) -> None:
    import mujoco

    mujoco.mj_setState(env.model, env.data, state["physics"], mujoco.mjtState.mjSTATE_INTEGRATION)
    for name in _LAGGING_FIELDS:
        getattr(env.data, name)[:] = state[name]
