"""The seams of the trainer: what an environment, a policy and a learner must offer, and nothing else.

Torch-free; every other module may import it.

Shapes: T rollout_length, B environments of one learner, K environments of one actor, L sequence length, N sequences,
D observation size, A action size (dimensions of a Box, number of choices of a Discrete).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.actions.action import Action, Head
from ddp_ppo.actions.kinds import action_of
from ddp_ppo.maths.moments import RmsState
from ddp_ppo.observations.layout import ObsLayout, layout_of

FloatArray = NDArray[np.float32]
BoolArray = NDArray[np.bool_]
Arrays = dict[str, NDArray[Any]]
Shapes = dict[str, tuple[str, tuple[int, ...]]]  # name -> (dtype, shape)
PlainState = dict[str, Any]  # arrays and plain values only: nothing in it is ever unpickled


@dataclass(frozen=True)
class EnvSpec:
    """What a policy has to know of an environment; plain values, the same in every process.

    Attributes:
        env_id: the Gymnasium id or `module:Class`.
        obs_size: D, the length of one flat float32 observation (a Discrete(n) observation is one-hot of length n).
        action_kind: a kind of `actions.kinds`: "box" (actions float32 [K, A]) or "discrete" (int64 [K], 0 .. A-1).
        action_size: A, the outputs of a policy's network.
        action_low, action_high: limits of each Box dimension, length A; empty for "discrete".
        action_start: what a Discrete space adds to 0 .. A-1; the environment adds it, nobody else does.
        max_episode_steps: time limit in steps, None without one.
        backend: name of the backend that runs it.
        image: the shape of an observation that is a Box of three dimensions, flattened in this order; empty elsewhere.
            Which of them is which is for the network to know.
        obs_scale: what brings raw images to at most 1, by the limits of their space; 1 where nobody knows.
        obs_parts: name, kind, shape and scale of each part of the row, as for `ObsLayout.of`; empty where the
            observation is one array.
        obs_shape: of a Box observation before it is flattened; empty where it is not known.
        obs_start: the first number of a Discrete observation space; None for any other.
        obs_dtype: what a rollout keeps observations as: "uint8" where they hold nothing but whole numbers from 0 to
            255, else "float32". An environment's own arrays are float32 either way.
        unsaved: why its state cannot be saved although there are methods for it, found by trying; empty if it can be,
            or if there are none.
        notes: what a person should know of it.
    """

    env_id: str
    obs_size: int
    action_kind: str
    action_size: int
    action_low: tuple[float, ...] = ()
    action_high: tuple[float, ...] = ()
    action_start: int = 0
    max_episode_steps: int | None = None
    backend: str = "gymnasium"
    image: tuple[int, ...] = ()
    obs_scale: float = 1.0
    obs_parts: tuple[tuple[str, str, tuple[int, ...], float], ...] = ()
    obs_shape: tuple[int, ...] = field(default=(), compare=False)  # files of earlier releases do not have these two
    obs_start: int | None = field(default=None, compare=False)
    obs_dtype: str = field(default="float32", compare=False)
    unsaved: str = field(default="", compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def layout(self) -> ObsLayout:
        """The named parts of an observation's row."""
        return layout_of(vars(self))

    @property
    def action(self) -> Action:
        """The action space as an object, so that no other code branches on its kind."""
        return action_of(vars(self))


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

    @staticmethod
    def allocate(num_envs: int, obs_size: int) -> Step:
        """Arrays of zeros, which an environment fills in every step."""
        return Step(
            obs=np.zeros((num_envs, obs_size), np.float32),
            reward=np.zeros(num_envs),
            terminated=np.zeros(num_envs, np.bool_),
            truncated=np.zeros(num_envs, np.bool_),
            final_obs=np.zeros((num_envs, obs_size), np.float32),
        )


class Rows(NamedTuple):
    """One actor's columns of a rollout, filled by a loop over T steps."""

    obs: NDArray[Any]  # [T + 1, K, D] of EnvSpec.obs_dtype; the loop finds the first row filled
    act: NDArray[Any]  # [T, K, A] float32 or [T, K] int64; written by the policy
    reward: NDArray[np.float64]  # [T, K] raw
    terminated: BoolArray  # [T, K]
    truncated: BoolArray  # [T, K]
    final_obs: (
        Any  # final_obs[step][which] = obs, which [K] bool: where an episode was truncated; as `FinalObs` takes it
    )
    progress: NDArray[np.int64]  # [1] the step that runs, for whoever watches


Act = Callable[[int, FloatArray, NDArray[Any]], NDArray[Any]]  # step, obs [K, D], where the raw sample goes -> actions
NO_STATE = np.zeros((0, 0), np.float32)  # of a policy that remembers nothing


class Policy(Protocol):
    """A policy that acts in K environments, its normaliser included.

    What it remembers of an episode is one row of `state` for each environment, which the caller keeps: all zeros where
    an episode begins (see `sampling.drive`), updated in place by every call of `act` or `mode`. A feed-forward policy
    has state_size 0.
    """

    state_size: int  # S
    head: Head  # the distribution that its outputs stand for

    @property
    def outputs(self) -> FloatArray:
        """[T, K, A] of the network in the steps of the last rollout."""

    def load(self, parameters: FloatArray, obs_rms_state: RmsState | None) -> None:
        """Acts with a copy of these parameters [P] and these frozen statistics from now on."""

    def begin(self, generator: np.random.Generator) -> None:
        """Draws the noise of a complete rollout of T steps."""

    def act(self, step: int, obs: FloatArray, act: NDArray[Any], state: FloatArray = NO_STATE) -> NDArray[Any]:
        """Samples the actions of one step.

        Args:
            step: 0 .. T-1.
            obs: [K, D] raw, as a rollout keeps them: float32, or bytes (EnvSpec.obs_dtype).
            act: where the raw samples [K, ...] are written.
            state: [K, S].

        Returns:
            what the environment gets, valid until the next call.
        """

    def mode(self, obs: FloatArray, state: FloatArray = NO_STATE) -> NDArray[Any]:
        """The deterministic actions that the environment gets for raw obs [K, D], valid until the next call."""

    def logp(self, act: NDArray[Any]) -> FloatArray:
        """Log-probabilities [T, K] of the samples of the last rollout."""

    def rollout_values(self, slices: Arrays) -> tuple[FloatArray, FloatArray]:
        """The critic's values [T + 1, K] of a rollout's observations, and [T, K] of the last observation of truncated
        episodes (0 elsewhere)."""


class EpisodeEnd(NamedTuple):
    """Where an episode ended: the block of its environment, the step of the rollout, the environment of the learner."""

    block: int
    step: int
    env: int


@dataclass(frozen=True, kw_only=True)
class ActorReport:
    """What an actor tells its learner of one rollout; all that crosses the pipe but for commands and errors.

    Attributes:
        actor_id: index among the actors of all learners.
        num_envs: K, environments of the actor.
        episodes: how many episodes ended in this rollout.
        episode_ends: where each of them ended.
        episode_returns, episode_return_sum: the raw return of each of them, and their sum.
        episode_len_sum: the sum of their lengths, in steps.
        episode_terminations: how many of them the task itself ended.
        obs_rms_moments: block -> moments of its raw observations in this rollout alone, for the blocks that the actor
            has alone; empty without normalisation.
        return_rms_moments: the same of running discounted returns; empty without reward scaling.
        reward_terms: the mean over steps and environments of each part of the reward that is named, 0 without it.
        overlap: bodies that overlap at the first reset, in words; empty if none do, and in every later rollout.
        outside: an observation far outside its space, in words; empty if none is, and once one has been reported.
        sample_seconds, annotate_seconds: what stepping the environments and what completing the rollout took.
        state: where the environments stand now.
        final_obs: a `FinalObs` of this rollout, where its learner reads it; else None.
    """

    actor_id: int
    num_envs: int
    episodes: int
    episode_ends: list[EpisodeEnd]
    episode_returns: list[float]
    episode_return_sum: float
    episode_len_sum: int
    episode_terminations: int
    obs_rms_moments: dict[int, RmsState]
    return_rms_moments: dict[int, RmsState]
    reward_terms: Mapping[str, float]
    overlap: str
    sample_seconds: float
    annotate_seconds: float
    state: PlainState
    final_obs: Any = None
    outside: str = ""


class BatchEnv(Protocol):
    """K independent environments stepped as arrays, each reset in the same step in which its episode ends.

    A class may also have `run_steps(act, rows)`, with parameters of these names, which does what `step_loop.run_steps`
    does with its `step`, faster. It has written the ends of a step (`rows.terminated`, `rows.truncated`) before it asks
    for the next action.
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
        """Named parts of the last step's reward, [K] each; a part that a step does not name is 0 there."""

    def close(self) -> None:
        """Frees what the environments hold."""
