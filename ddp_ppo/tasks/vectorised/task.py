"""K environments of a `Design`, stepped, scored and reset as arrays; the base class of vectorised tasks.

What an episode is made of, in this order: the properties that vary, the first command, the state in which `place` puts
the robot; then in every step: the pushes, the physics, the reward and the ends under the command that the policy saw,
the next command, the observation. Each environment draws from a stream that its seed alone determines.

Shapes: K environments, n of them, D observation size, A action size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from ddp_ppo.envs.step_loop import run_steps
from ddp_ppo.errors import EnvError, describe_cause
from ddp_ppo.protocols import Act, FloatArray, PlainState, Rows, Step
from ddp_ppo.tasks.vectorised.checks import require_design, require_shapes
from ddp_ppo.tasks.vectorised.commands import CommandState
from ddp_ppo.tasks.vectorised.description import column_names, column_noise, column_slices, describe, noisy_columns
from ddp_ppo.tasks.vectorised.design import Design, Pushes
from ddp_ppo.tasks.vectorised.mirror import Mirror, mirror_of
from ddp_ppo.tasks.vectorised.pushes import PushState
from ddp_ppo.tasks.vectorised.simulation import Simulation
from ddp_ppo.tasks.vectorised.snapshot import Snapshot
from ddp_ppo.tasks.vectorised.streams import ALL, Streams

Float64Array = NDArray[np.float64]
Ids = NDArray[np.int32]


class MujocoTask:
    """A `BatchEnv` over a design. A task overrides `place`, and if it needs them `measure` and `count`.

    Attributes:
        num_envs: K.
        sim: the simulations; `sim.qpos`, `sim.qvel`, `sim.ctrl` are live arrays.
        action, last_action: [K, A] of the last step and of the one before; 0 at an episode's start.
        command: [K, C]; empty columns if the task has no commands.
        push: [K, 3] in N along the world's axes.
        varied: what each environment drew at its episode's start, [K] by name.
        elapsed: steps [K] of each episode.
        step_seconds: of a control step.
        streams: where `place` draws its random numbers from.
        progress: how far training is, from 0 to 1; 1 until `set_progress` is called.
        measured: what `measures` returned in the last step, under the command that was followed in it.
        metadata: names and units of the columns, as `envs.columns` reads them.
    """

    def __init__(self, num_envs: int, design: Design) -> None:
        """Builds K simulations; raises EnvError if there is a mistake in the design."""
        self.num_envs, self.design = num_envs, design
        require_design(design, design.model.compile())
        self.sim = Simulation(
            design.model, num_envs, physics_steps=design.physics_steps, vary=design.vary, home=design.home
        )
        model = self.sim.model
        self.step_seconds = float(model.opt.timestep) * design.physics_steps
        self.streams = Streams(num_envs)
        self.progress = 1.0
        self.elapsed = np.zeros(num_envs, np.int64)
        self.action, self.last_action = (np.zeros((num_envs, model.nu), np.float32) for _ in range(2))
        self._home, self._action_scale = np.array(design.home or 0.0), np.array(design.action_scale or 1.0)
        self._commands = design.commands and CommandState(design.commands, num_envs, step_seconds=self.step_seconds)
        self.command = self._commands.value if self._commands else np.zeros((num_envs, 0))
        self._push = PushState(design.pushes or _NO_PUSHES, num_envs, step_seconds=self.step_seconds)
        self._pushed = model.body(design.pushes.body).id if design.pushes else 0
        self._memory: dict[str, NDArray[Any]] = {}
        self._lasting: dict[str, NDArray[Any]] = {}
        self._groups, self._noise = column_slices(design), column_noise(design)
        self._noisy = noisy_columns(self._noise)
        self.spec = describe(design, model, f"{type(self).__module__}:{type(self).__qualname__}")
        assert self.spec.max_episode_steps is not None
        self._limit = self.spec.max_episode_steps
        self._result = Step.allocate(num_envs, self.spec.obs_size)
        self._weights = [term.weight * self.step_seconds for term in design.rewards]
        self._terms = np.zeros((len(design.rewards), num_envs))
        self._ends = np.zeros((len(design.ends), num_envs), np.bool_)
        self.metadata = column_names(design, model)
        self.measured: Mapping[str, NDArray[Any]] = {}

    # What a task overrides.

    def place(self, ids: Ids) -> None:
        """Puts the robots of environments, which are at the model's default state, where their episodes begin."""

    def measure(self) -> None:
        """Computes what several terms read; called after every step and once more if episodes have begun."""

    def count(self) -> None:
        """Updates the task's memory after `measure`, once in every step."""

    def finish(self, ids: Ids) -> None:
        """Episodes have ended and the next ones have not begun: where a curriculum sees how well they went."""

    def measures(self) -> Mapping[str, NDArray[Any]]:
        """Figures [K] of the last step that are metrics, but not terms of the reward."""
        return {}

    def set_progress(self, fraction: float) -> None:
        """How far training is, from 0 to 1; a trainer calls this before a rollout. Commands widen with it."""
        self.progress = fraction

    # What a task calls.

    def memory(self, name: str, *shape: int, dtype: Any = np.float64, is_lasting: bool = False) -> NDArray[Any]:
        """An array [K, *shape] that belongs to the state: it is saved, restored, and 0 at the start of an episode.

        A lasting one is 0 only after `reset`, so that an environment remembers its earlier episodes.
        """
        memory = self._lasting if is_lasting else self._memory
        memory[name] = np.zeros((self.num_envs, *shape), dtype)
        return memory[name]

    @property
    def push(self) -> Float64Array:
        """The force [K, 3] that pushes each robot, in N along the world's axes."""
        return self._push.force

    @property
    def varied(self) -> Mapping[str, Float64Array]:
        """What each environment drew at its episode's start, [K] by name."""
        return self.sim.varied

    @property
    def mirror(self) -> Mirror | None:
        """How observations and actions change if left and right are swapped; None if the task declares nothing."""
        return mirror_of(self.design)

    # What a `BatchEnv` offers.

    def reset(self, seeds: Sequence[int]) -> FloatArray:
        """Starts new episodes, environment i from seeds[i]."""
        self.streams.seed(seeds)
        for values in self._lasting.values():
            values[...] = 0
        self._begin(np.arange(self.num_envs, dtype=np.int32))
        self.measure()
        require_shapes(self, self.num_envs)
        self._observe(self._result.obs)
        self._add_noise(self._result.obs)
        return self._result.obs

    def step(self, action: NDArray[Any]) -> Step:
        """One control step; raises EnvError where MuJoCo itself fails."""
        self.last_action[...] = self.action
        self.action[...] = action
        self.sim.ctrl[...] = self._home + self._action_scale * self.action
        if self.design.pushes:
            self._push.advance(self.streams)
            self.sim.xfrc_applied[:, self._pushed, :3] = self._push.force
        self._advance_physics()
        self.elapsed += 1
        self.measure()
        self.count()
        result = self._result
        self._judge(result)
        self.measured = self.measures()
        if self._commands:
            self._commands.advance(self.elapsed, self.streams, self.progress)
        self._observe(result.obs)
        self._add_noise(result.obs)
        ended = np.flatnonzero(result.terminated | result.truncated).astype(np.int32)
        if len(ended):
            result.final_obs[ended] = result.obs[ended]
            self.finish(ended)
            self.restart(ended)
        return result

    def run_steps(self, act: Act, rows: Rows) -> dict[str, float]:
        """`step_loop.run_steps`, with the mean of every step's terms, ends and measures."""
        figures: list[Float64Array] = []

        def recorded(step: int, obs: FloatArray, sample: NDArray[Any]) -> NDArray[Any]:
            if step:
                figures.append(self._figures())
            return act(step, obs, sample)

        run_steps(self, recorded, rows)
        figures.append(self._figures())
        names = [*self.reward_terms(), *(f"end_{name}" for name in self.end_reasons()), *self.measured]
        return dict(zip(names, np.mean(figures, axis=0).tolist(), strict=True))

    def reward_terms(self) -> Mapping[str, Float64Array]:
        """The weighted terms of the last step's reward, [K] each."""
        return {term.name: values for term, values in zip(self.design.rewards, self._terms, strict=True)}

    def end_reasons(self) -> Mapping[str, NDArray[np.bool_]]:
        """Which episodes [K] the last step ended, by reason; the time limit is none of them."""
        return {end.name: flags for end, flags in zip(self.design.ends, self._ends, strict=True)}

    def restart(self, ids: Ids) -> FloatArray:
        """Starts new episodes in these environments, their streams going on; returns obs [K, D]."""
        self._begin(ids)
        self._observe_start(ids)
        return self._result.obs

    def drawn_model(self) -> mujoco.MjModel:
        """The model for pictures; a task overrides it if the simulated one lacks what is drawn."""
        return self.sim.model

    def save(self) -> PlainState:
        """The exact state."""
        parts = {name: values.copy() for name, values in self._parts().items()}
        return {"sim": self.sim.save(), "progress": self.progress, **parts}

    def restore(self, state: PlainState) -> FloatArray:
        """Continues from what `save` returned; raises EnvError if it is the state of another task."""
        parts = self._parts()
        wrong = [name for name in parts if np.shape(state.get(name, ())) != parts[name].shape]
        if wrong:
            raise EnvError(f"{self.spec.env_id}: the saved {wrong[0]} does not fit this task of {self.num_envs}")
        self.sim.restore(state["sim"])
        self.progress = float(state["progress"])
        for name, values in parts.items():
            values[...] = state[name]
        return self._result.obs

    def gymnasium_env(self, index: int) -> Snapshot:
        """Environment `index` as it stands, for whoever looks into it."""
        model, steps = self.sim.model, self.design.physics_steps
        data = self.sim.snapshot(index, model)
        return Snapshot(model=model, data=data, metadata=self.metadata, dt=self.step_seconds, frame_skip=steps)

    def close(self) -> None:
        """Nothing to do: memory is freed with the object."""

    def _parts(self) -> dict[str, NDArray[Any]]:
        """Every array that the next step reads, the simulations' apart."""
        own = {f"memory.{name}": values for name, values in {**self._memory, **self._lasting}.items()}
        if self._commands:
            own |= {"command": self._commands.value, "command.wait": self._commands.wait}
        push = {f"push.{name}": getattr(self._push, name) for name in ("force", "wait", "left")}
        streams = {"keys": self.streams.keys, "counts": self.streams.counts}
        actions = {"action": self.action, "last_action": self.last_action}
        return {**own, **push, **streams, **actions, "elapsed": self.elapsed, "obs": self._result.obs}

    def _begin(self, ids: Ids) -> None:
        self.sim.restart(ids)
        for one in self.design.vary:
            self.sim.vary(ids, one.name, self.streams.uniform(1, one.low, one.high, ids=ids)[:, 0])
        for values in (self.action, self.last_action, self.elapsed, *self._memory.values()):
            values[ids] = 0
        if self._commands:
            self._commands.draw(ids, self.streams, self.progress)
        if self.design.pushes:
            self._push.schedule(ids, self.streams)
        self.place(ids)
        self.sim.settle(ids)

    def _advance_physics(self) -> None:
        try:
            self.sim.step()
        except RuntimeError as error:
            raise EnvError(f"{self.spec.env_id}: the physics failed: {describe_cause(error)}") from error

    def _judge(self, result: Step) -> None:
        """Writes the reward and the ends of a step."""
        result.reward.fill(0.0)
        for row, weight, term in zip(self._terms, self._weights, self.design.rewards, strict=True):
            np.multiply(term.read(self), weight, out=row)
            np.add(result.reward, row, out=result.reward)  # one by one: np.sum adds in another order if K is 1
        np.greater_equal(self.elapsed, self._limit, out=result.truncated)
        result.terminated[...] = self.sim.has_failed
        for flags, end in zip(self._ends, self.design.ends, strict=True):
            flags[...] = end.read(self)
            which = result.truncated if end.is_outside else result.terminated
            np.logical_or(which, flags, out=which)

    def _observe(self, obs: FloatArray) -> None:
        """Writes the true values of every column."""
        for place, group in zip(self._groups, self.design.obs, strict=True):
            values = group.read(self)
            obs[:, place] = values if values.ndim == 2 else values[:, None]

    def _observe_start(self, ids: Ids) -> None:
        """Writes the first observations of episodes, and leaves the other rows as they are."""
        self.measure()
        fresh = np.empty_like(self._result.obs)
        self._observe(fresh)
        self._result.obs[ids] = fresh[ids]
        self._add_noise(self._result.obs, ids)

    def _add_noise(self, obs: FloatArray, ids: Any = ALL) -> None:
        if self._noisy.stop:
            noise = self.streams.noise(self._noisy.stop - self._noisy.start, ids)
            obs[ids, self._noisy] += noise * self._noise[self._noisy]

    def _figures(self) -> Float64Array:
        """Means over the environments of the last step's terms, ends and measures."""
        measures = [float(values.mean()) for values in self.measured.values()]
        return np.concatenate([self._terms.mean(axis=1), self._ends.mean(axis=1), measures])


_NO_PUSHES = Pushes(body="", max_force=0.0)
