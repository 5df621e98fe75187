"""The seams of the trainer: what an environment, a policy and a learner must offer, and nothing else.

Torch-free. Nothing here runs; every other module may import it.

Shapes: T rollout_length, B environments of one learner, K environments of one actor, L sequence length, N sequences,
D observation size, A action size (dimensions of a Box, number of choices of a Discrete).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypedDict

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
BoolArray = NDArray[np.bool_]
Arrays = dict[str, NDArray[Any]]
Shapes = dict[str, tuple[str, tuple[int, ...]]]  # name -> (dtype, shape)
PlainState = dict[str, Any]  # arrays and plain values only: nothing in it is ever unpickled


class RmsState(TypedDict):
    """Moments of `count` samples: their mean and their population variance, [D] each."""

    mean: NDArray[np.float64]
    var: NDArray[np.float64]
    count: float


@dataclass(frozen=True)
class EnvSpec:
    """What a policy has to know of an environment; plain values, the same in every process.

    Attributes:
        env_id: the Gymnasium id or `module:Class`.
        obs_size: D, the length of one flat float32 observation (a Discrete(n) observation is one-hot of length n).
        action_kind: "box" (actions float32 [K, A]) or "discrete" (actions int64 [K], 0 .. A-1).
        action_size: A.
        action_low, action_high: bounds of each Box dimension, length A; empty for "discrete".
        action_start: what a Discrete space adds to 0 .. A-1; the environment adds it, nobody else does.
        max_episode_steps: time limit in steps, None without one.
        backend: name of the backend that runs it.
        image: height, width and channels, or channels, height and width, where an observation is a Box of three
            dimensions, flattened in this order; empty elsewhere.
        obs_scale: what brings raw observations to at most 1: 1/255 for images of bytes; 1 where nobody knows.
    """

    env_id: str
    obs_size: int
    action_kind: Literal["box", "discrete"]
    action_size: int
    action_low: tuple[float, ...] = ()
    action_high: tuple[float, ...] = ()
    action_start: int = 0
    max_episode_steps: int | None = None
    backend: str = "gymnasium"
    image: tuple[int, ...] = ()
    obs_scale: float = 1.0


class Column(NamedTuple):
    """One column of an observation or an action; a text is empty where nothing is known.

    Attributes:
        name: what tables call it.
        unit: what a value of 1 is: "rad", "m/s", "120 N m"; "1" for a number without a unit.
        source: what it is read from or written to, such as "qpos[2]" of MuJoCo's data.
        frame: where it is measured: "world", an axis, a body.
    """

    name: str
    unit: str = ""
    source: str = ""
    frame: str = ""


class Step(NamedTuple):
    """Result of one `BatchEnv.step`; the arrays belong to the environment and are valid until its next call."""

    obs: FloatArray  # [K, D] the next observation; after an episode's end the first one of the next episode
    reward: NDArray[np.float64]  # [K] raw
    terminated: BoolArray  # [K] the task itself ended
    truncated: BoolArray  # [K] a time limit or another outside cause ended the episode
    final_obs: FloatArray  # [K, D] last observation of the ended episode; meaningless in rows that did not end


class Rows(NamedTuple):
    """One actor's columns of a rollout, filled by a loop over T steps."""

    obs: FloatArray  # [T + 1, K, D] the loop finds the first row filled
    act: NDArray[Any]  # [T, K, A] float32 or [T, K] int64; written by the policy
    reward: NDArray[np.float64]  # [T, K] raw
    terminated: BoolArray  # [T, K]
    truncated: BoolArray  # [T, K]
    final_obs: FloatArray  # [T, K, D] written where an episode was truncated
    progress: NDArray[np.int64]  # [1] the step that runs, for whoever watches


Act = Callable[[int, FloatArray, NDArray[Any]], NDArray[Any]]  # step, obs [K, D], where the raw sample goes -> actions


@dataclass(frozen=True, kw_only=True)
class ActorReport:
    """What an actor tells its learner of one rollout; all that crosses the pipe but for commands and errors.

    Attributes:
        actor_id: index among the actors of all learners.
        episodes: how many episodes ended in this rollout.
        episode_returns, episode_return_sum: the raw return of each of them, and their sum.
        episode_len_sum: the sum of their lengths, in steps.
        episode_terminations: how many of them the task itself ended.
        obs_rms_moments: moments of this rollout's raw observations alone; None without normalisation.
        return_rms_moments: moments of its running discounted returns alone; None without reward scaling.
        reward_terms: the mean of each part of the reward that the environments name.
        overlap: bodies that overlap at the first reset, in words; empty if none do, and in every later rollout.
        sample_seconds, annotate_seconds: what stepping the environments and what completing the rollout took.
        state: where the environments stand now.
    """

    actor_id: int
    episodes: int
    episode_returns: list[float]
    episode_return_sum: float
    episode_len_sum: int
    episode_terminations: int
    obs_rms_moments: RmsState | None
    return_rms_moments: RmsState | None
    reward_terms: Mapping[str, float]
    overlap: str
    sample_seconds: float
    annotate_seconds: float
    state: PlainState


class RolloutPolicy(Protocol):
    """What completing a rollout needs of the policy that acted."""

    outputs: FloatArray

    def logp(self, act: NDArray[Any]) -> FloatArray:
        """Log-probabilities [T, K] of the rollout's samples."""

    def values(self, obs: FloatArray) -> FloatArray:
        """Values [M] of raw observations [M, D]."""


class BatchEnv(Protocol):
    """K independent environments stepped as arrays, each reset in the same step in which its episode ends.

    A class may also have `run_steps(act, rows)`, which does what `step_loop.run_steps` does with its `step`, faster.
    """

    spec: EnvSpec
    num_envs: int

    def reset(self, seeds: Sequence[int]) -> FloatArray:
        """Starts new episodes in all environments, environment i seeded with seeds[i]; returns obs [K, D]."""

    def step(self, action: NDArray[Any]) -> Step:
        """Applies one action to each environment: float32 [K, A] within the bounds, or int64 [K] in 0 .. A-1."""

    def save(self) -> PlainState | None:
        """The exact state, RNG and elapsed steps included, as arrays and plain values; None if it cannot be saved."""

    def restore(self, state: PlainState) -> FloatArray:
        """Continues from a saved state; returns the current obs [K, D]."""

    def reward_terms(self) -> Mapping[str, NDArray[np.float64]]:
        """Named parts of the last step's reward, [K] each; empty where the environment names none."""

    def close(self) -> None:
        """Frees what the environments hold."""
