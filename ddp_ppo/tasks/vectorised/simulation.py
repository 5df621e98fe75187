"""K simulations of one model on `mujoco.batch`, each with its own values of the properties that a task varies.

Derived fields (sensordata, geom_xpos ...) describe the state before the last physics step, as in MjData after mj_step.

Shapes: K environments, n of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
from mujoco.batch import Batch
from numpy.typing import NDArray

from ddp_ppo.protocols import PlainState
from ddp_ppo.tasks.vectorised.design import Vary

Float64Array = NDArray[np.float64]
Ids = NDArray[np.int32]
_STATE = mujoco.mjtState.mjSTATE_INTEGRATION
_DELAY = "actuator_delay"
# Fields from which MuJoCo derives constants of a model: inertias at rest, weights of constraints.
_BEHIND_CONSTANTS = frozenset({"body_mass", "body_inertia", "body_ipos", "dof_armature", "qpos0"})


class Simulation:
    """K simulations. `qpos`, `qvel`, `ctrl` and `xfrc_applied` are live arrays [K, ...], read and written by the task.

    Attributes:
        model: the compiled model, with the values that nothing varies.
        varied: what each property was drawn as, [K] by its name.
    """

    def __init__(
        self,
        spec: mujoco.MjSpec,
        num_envs: int,
        *,
        physics_steps: int,
        vary: Sequence[Vary] = (),
        home: Sequence[float] = (),
    ) -> None:
        """`home` is what delayed actuators receive until the first action arrives."""
        _add_delay_buffers(spec, max((one.high for one in vary if _DELAY in one.fields), default=0.0))
        self.model = spec.compile()
        self._batch = Batch(self.model, num_envs, nthread=1)
        self._physics_steps = physics_steps
        self.qpos: Float64Array = self._batch.bind("qpos")
        self.qvel: Float64Array = self._batch.bind("qvel")
        self.ctrl: Float64Array = self._batch.bind("ctrl")
        self.xfrc_applied: Float64Array = self._batch.bind("xfrc_applied")
        self._start = _start_state(self.model, home)
        self._batch.state[:] = self._start
        self.varied = {one.name: np.zeros(num_envs) for one in vary}
        self._fields = [_VariedField(self._batch, one, name) for one in vary for name in one.fields]
        self._has_new_constants = any(_BEHIND_CONSTANTS.intersection(one.fields) for one in vary)

    def field(self, name: str) -> Any:
        """The live array [K, ...] of a field of MjData; to be called before the first step."""
        return self._batch.bind(name)

    @property
    def has_failed(self) -> NDArray[np.bool_]:
        """Which simulations [K] MuJoCo gave up and reset since they were restarted."""
        warnings = self._batch.warning
        if not warnings.any():
            return np.zeros(len(warnings), np.bool_)
        failed: NDArray[np.bool_] = (warnings[:, _UNSTABLE, _NUMBER] > 0).any(axis=1)
        return failed

    def step(self) -> None:
        """One control step."""
        self._batch.step(nstep=self._physics_steps)

    def restart(self, ids: Ids) -> None:
        """Puts simulations at the model's default state; `settle` has to follow once the task has placed them."""
        self._batch.state[ids] = self._start
        self._batch.warning[ids] = 0

    def vary(self, ids: Ids, name: str, values: Float64Array) -> None:
        """Sets a varied property of simulations to values [n]."""
        self.varied[name][ids] = values
        for one in self._fields:
            if one.name == name:
                one.write(ids, values)

    def settle(self, ids: Ids) -> None:
        """Computes what follows from the new state and properties of simulations."""
        if len(ids):
            if self._has_new_constants:
                self._batch.set_const(ids)
            self._batch.forward(ids)

    def save(self) -> PlainState:
        """The exact state of all simulations."""
        varied = {name: values.copy() for name, values in self.varied.items()}
        return {"physics": self._batch.state.copy(), "warnings": self._batch.warning.copy(), "varied": varied}

    def restore(self, state: PlainState) -> None:
        """Continues from what `save` returned; derived fields follow with the next step."""
        ids = np.arange(len(self.qpos), dtype=np.int32)
        for name, values in state["varied"].items():
            self.vary(ids, name, np.asarray(values, np.float64))
        if self._has_new_constants:
            self._batch.set_const(ids)
        self._batch.state[:] = state["physics"]
        self._batch.warning[:] = state["warnings"]

    def snapshot(self, index: int, model: mujoco.MjModel) -> mujoco.MjData:
        """Simulation `index` in a model with the same joints and actuators, for drawing."""
        data = mujoco.MjData(model)
        data.qpos[:], data.qvel[:] = self.qpos[index], self.qvel[index]
        mujoco.mj_forward(model, data)
        return data


_NUMBER = 1  # of the two integers of a warning: where, and how often
_UNSTABLE = [int(kind) for kind in (mujoco.mjtWarning.mjWARN_BADQPOS, mujoco.mjtWarning.mjWARN_BADQVEL)] + [
    int(mujoco.mjtWarning.mjWARN_BADQACC)
]


class _VariedField:
    """The entries of one field that follow one property."""

    def __init__(self, batch: Batch, vary: Vary, field: str) -> None:
        values = batch.expand(field)
        self.name, self._how = vary.name, vary.how
        self._values: Float64Array = values.reshape(len(values), -1)  # [K, entries], a view
        place: Any = (list(vary.rows) if vary.rows else slice(None),)
        if vary.column is not None:
            place += (vary.column,)
        self._entries = np.arange(self._values.shape[1]).reshape(values.shape[1:])[place].ravel()
        self._base = self._values[0, self._entries].copy()

    def write(self, ids: Ids, drawn: Float64Array) -> None:
        """Sets the entries of simulations to what their draws [n] make of the model's values."""
        column = drawn[:, None]
        new = {"set": column, "add": self._base + column, "scale": self._base * column}[self._how]
        self._values[ids[:, None], self._entries] = new


def _add_delay_buffers(spec: mujoco.MjSpec, longest: float) -> None:
    if longest > 0.0:
        for actuator in spec.actuators:
            actuator.delay = longest
            actuator.nsample = math.ceil(longest / spec.option.timestep) + 1


def _start_state(model: mujoco.MjModel, home: Sequence[float]) -> Float64Array:
    """The state after a reset, with the home controls in the actuators' buffers."""
    data = mujoco.MjData(model)
    data.ctrl[:] = home or 0.0
    for index in range(model.nu):
        num_samples = int(model.actuator_history[index, 0])
        if num_samples:
            mujoco.mj_initCtrlHistory(model, data, index, None, np.full((num_samples, 1), data.ctrl[index]))
    state = np.empty(mujoco.mj_stateSize(model, _STATE))
    mujoco.mj_getState(model, data, state, _STATE)
    return state
