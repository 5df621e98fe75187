"""K simulations of one MuJoCo model behind one small interface: batched in C, or a thin loop in Python.

Fields are live float64 arrays [K, ...]. Derived fields (xpos, cinert ...) describe the state before the last substep,
as they do in MjData after `mj_step`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import mujoco
import numpy as np
from numpy.typing import NDArray

Float64Array = NDArray[np.float64]
Start = tuple[Float64Array, Float64Array]  # qpos [nq], qvel [nv]

_STATE = mujoco.mjtState.mjSTATE_INTEGRATION  # qpos, qvel, act, time, warm start, controls ...: all that a step reads


class Physics(Protocol):
    """What a task needs of its simulations."""

    num_envs: int
    ctrl: Float64Array  # [K, nu], written before `step`

    def field(self, name: str) -> Float64Array:
        """The live array [K, ...] of an MjData field; to be called before the first `step`."""

    def step(self) -> None:
        """Advances all simulations by frame_skip substeps; RuntimeError names the simulation where MuJoCo gives up."""

    def restart(self, ids: NDArray[np.int32], starts: Sequence[Start]) -> None:
        """Resets simulations (ascending ids) and puts each at its start."""

    def save(self) -> Float64Array:
        """The full physics state of all simulations, [K, n]."""

    def restore(self, state: Float64Array) -> None:
        """Sets what `save` returned; derived fields follow with the next step."""


class BatchPhysics:
    """`mujoco.batch.Batch` on the calling thread. It does not compute contact forces (cfrc_ext)."""

    def __init__(self, model: mujoco.MjModel, num_envs: int, frame_skip: int) -> None:
        from mujoco.batch import Batch  # not in MuJoCo before 3.17, see batch.missing_batch

        self.num_envs = num_envs
        self._batch = Batch(model, num_envs, nthread=1)
        self._frame_skip = frame_skip
        self._qpos, self._qvel, self.ctrl = self.field("qpos"), self.field("qvel"), self.field("ctrl")
        self._batch.reset(stage=mujoco.mjtStage.mjSTAGE_NONE.value)
        self._after_reset = self._batch.state[0].copy()

    def field(self, name: str) -> Float64Array:
        """See `Physics`."""
        array: Float64Array = self._batch.bind(name)
        return array

    def step(self) -> None:
        """See `Physics`."""
        self._batch.step(nstep=self._frame_skip)

    def restart(self, ids: NDArray[np.int32], starts: Sequence[Start]) -> None:
        """See `Physics`."""
        for index, (qpos, qvel) in zip(ids, starts, strict=True):
            self._batch.state[index] = self._after_reset  # what Batch.reset does, with a tenth of its overhead
            self._batch.warning[index] = 0
            self._qpos[index] = qpos
            self._qvel[index] = qvel
        self._batch.forward(ids)

    def save(self) -> Float64Array:
        """See `Physics`."""
        state: Float64Array = self._batch.state.copy()
        return state

    def restore(self, state: Float64Array) -> None:
        """See `Physics`."""
        self._batch.state[:] = state


class LoopPhysics:
    """One MjData per simulation, stepped in Python (2 to 3 us each); computes contact forces where they are read."""

    def __init__(self, model: mujoco.MjModel, num_envs: int, frame_skip: int) -> None:
        self.num_envs = num_envs
        self._model = model
        self._frame_skip = frame_skip
        self._data = [mujoco.MjData(model) for _ in range(num_envs)]
        self._fields: dict[str, Float64Array] = {}
        self._copies: list[list[tuple[Float64Array, Any]]] = [[] for _ in range(num_envs)]  # destination, source
        self.ctrl = self.field("ctrl")

    def field(self, name: str) -> Float64Array:
        """See `Physics`."""
        if name not in self._fields:
            array = self._fields[name] = np.stack([getattr(data, name) for data in self._data])
            for copies, row, data in zip(self._copies, array, self._data, strict=True):
                copies.append((row, getattr(data, name)))
        return self._fields[name]

    def step(self) -> None:
        """See `Physics`."""
        model, frame_skip, has_contact_forces = self._model, self._frame_skip, "cfrc_ext" in self._fields
        index = 0
        try:
            for index, data in enumerate(self._data):
                data.ctrl[:] = self.ctrl[index]
                mujoco.mj_step(model, data, frame_skip)
                if has_contact_forces:
                    mujoco.mj_rnePostConstraint(model, data)
                for destination, source in self._copies[index]:
                    destination[...] = source
        except mujoco.FatalError as error:
            raise RuntimeError(f"environment {index}: {error}") from error

    def restart(self, ids: NDArray[np.int32], starts: Sequence[Start]) -> None:
        """See `Physics`."""
        for index, (qpos, qvel) in zip(ids, starts, strict=True):
            data = self._data[index]
            mujoco.mj_resetData(self._model, data)
            data.qpos[:] = qpos
            data.qvel[:] = qvel
            mujoco.mj_forward(self._model, data)
            for destination, source in self._copies[index]:
                destination[...] = source

    def save(self) -> Float64Array:
        """See `Physics`."""
        state = np.empty((self.num_envs, mujoco.mj_stateSize(self._model, _STATE)))
        for data, row in zip(self._data, state, strict=True):
            mujoco.mj_getState(self._model, data, row, _STATE)
        return state

    def restore(self, state: Float64Array) -> None:
        """See `Physics`."""
        for data, row in zip(self._data, state, strict=True):
            mujoco.mj_setState(self._model, data, row, _STATE)
