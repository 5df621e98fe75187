"""A policy in environments, step by step: the one place that knows what happens where an episode begins or ends.

Sampling, evaluation, recordings, checks and comparisons all step through here. A policy's state is zero at the
beginning of each episode, and only here is it set to zero. Torch-free.

Shapes: T steps, K environments, D observation size, S state size of the policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.protocols import Act, BatchEnv, BoolArray, FloatArray, Policy, Rows, Step


class Chooser(Protocol):
    """Whatever decides on actions for K environments: a policy, or a list of actions."""

    def choose(self, obs: FloatArray) -> NDArray[Any]:
        """What the environments get for obs [K, D], valid until the next call."""

    def after(self, ended: BoolArray) -> None:
        """Hears which episodes [K] have ended with the last step."""


class Transition(NamedTuple):
    """One step of K environments; its arrays are valid until the next step."""

    action: NDArray[Any]  # what the environments got
    step: Step
    ended: BoolArray  # [K]

    @property
    def reached(self) -> FloatArray:
        """[K, D] what the step led to: the last observation of an episode that ended, else the next one."""
        return np.where(self.ended[:, None], self.step.final_obs, self.step.obs)


def drive(env: BatchEnv, chooser: Chooser, obs: FloatArray) -> Iterator[Transition]:
    """Steps environments that observe obs [K, D] now, for as long as transitions are asked for."""
    while True:
        action = chooser.choose(obs)
        step = env.step(action)
        ended = step.terminated | step.truncated
        yield Transition(action, step, ended)
        chooser.after(ended)
        obs = step.obs


class Player:
    """A policy in K environments with its state [K, S], which begins at zero in every episode.

    It acts deterministically, or samples where it has a generator.
    """

    def __init__(self, policy: Policy, num_envs: int, generator: np.random.Generator | None = None) -> None:
        self.policy = policy
        self.state = np.zeros((num_envs, policy.state_size), np.float32)
        self._generator = generator

    def restart(self) -> None:
        """All environments have been reset."""
        self.state.fill(0.0)

    def choose(self, obs: FloatArray) -> NDArray[Any]:
        """See `Chooser`."""
        if self._generator is None:
            return self.policy.mode(obs, self.state)
        self.policy.begin(self._generator)
        head = self.policy.head
        return self.policy.act(0, obs, np.empty((len(obs), *head.act_shape), head.act_dtype), self.state)

    def after(self, ended: BoolArray) -> None:
        """See `Chooser`."""
        if self.policy.state_size:
            self.state[ended] = 0.0

    def rollout(self, run_steps: Callable[[Act, Rows], dict[str, float]], rows: Rows) -> dict[str, float]:
        """Samples T steps into rows by the environments' own loop; the policy's noise has been drawn.

        Returns:
            what the loop returns: means of the reward's named terms.
        """
        if not self.policy.state_size:
            return run_steps(self.policy.act, rows)

        def act(step: int, obs: FloatArray, act: NDArray[Any]) -> NDArray[Any]:
            if step:
                self.after(rows.terminated[step - 1] | rows.truncated[step - 1])
            return self.policy.act(step, obs, act, self.state)

        terms = run_steps(act, rows)
        self.after(rows.terminated[-1] | rows.truncated[-1])
        return terms
