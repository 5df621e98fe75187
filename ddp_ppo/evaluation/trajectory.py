"""What happened in an episode, step by step: recorded, kept in a file, compared with another one.

Episodes run as evaluations run them, in blocks of one size, so a recorded episode has the return that an evaluation
gives its seed, to the last bit. Nothing here draws.

Shapes: T steps of the episode, D observation size, A action size, K environments of a block.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.actions.action import Action
from ddp_ppo.config.settings import ConfigError
from ddp_ppo.maths.seeding import kept_global_generators, seed_global_generators
from ddp_ppo.protocols import BatchEnv, Column, EnvSpec, FloatArray, Policy
from ddp_ppo.runs.files import write_atomically
from ddp_ppo.sampling.drive import Player, drive
from ddp_ppo.sampling.episodes import ENDLESS_STEPS, EVAL_BLOCK, InBlock, blocks_of, padded_seeds

_ARRAYS = ("obs", "act", "policy_act", "reward")


@dataclass(frozen=True)
class Trajectory:
    """One episode.

    Attributes:
        env_id, seed: what was reset, and how.
        obs: [T + 1, D] raw; the last row is this episode's last observation, not the next one's first.
        act: [T, A] float32 within the bounds or [T] int64, the environment's own values: what it got.
        policy_act: what the policy wanted; the same unless given actions were replayed.
        reward: [T] raw.
        terms: the reward's named parts, [T] each; 0 in a step without one.
        end: "terminated", "truncated", or "cut" where it could have gone on.
    """

    env_id: str
    seed: int
    obs: FloatArray
    act: NDArray[Any]
    policy_act: NDArray[Any]
    reward: NDArray[np.float64]
    terms: Mapping[str, NDArray[np.float64]]
    end: str

    @property
    def length(self) -> int:
        """T, at least 1."""
        return len(self.reward)

    @property
    def episode_return(self) -> float:
        """The sum of the rewards, added in their order as an evaluation does."""
        return float(np.cumsum(self.reward)[-1])

    def save(self, path: Path) -> None:
        """Writes an .npz file of plain arrays, which `read_actions` reads."""
        content: dict[str, Any] = {name: getattr(self, name) for name in ("env_id", "seed", *_ARRAYS, "end")}
        content |= {"term_names": np.array([*self.terms], str), "terms": np.array([*self.terms.values()])}
        write_atomically(path, lambda file: np.savez_compressed(file, allow_pickle=False, **content))


class _Step(NamedTuple):
    """One step of K environments."""

    act: NDArray[Any]
    policy_act: NDArray[Any]
    reward: NDArray[np.float64]
    terms: dict[str, NDArray[np.float64]]


class _Replay:
    """A policy's choices, or given actions in their place; keeps both, in the environment's own values."""

    def __init__(self, player: Player, action: Action, actions: NDArray[Any] | None) -> None:
        self._player, self._action = player, action
        self._actions = None if actions is None else iter(actions)
        self.wanted = self.given = np.zeros(0)
        self.after = player.after

    def choose(self, obs: FloatArray) -> NDArray[Any]:
        """See `Chooser`."""
        self.wanted = self.given = self._action.to_own(self._player.choose(obs))
        if self._actions is not None:
            self.given = np.repeat(next(self._actions)[None], EVAL_BLOCK, axis=0)
        return self._action.from_own(self.given)


def record_block(
    env: BatchEnv,
    policy: Policy,
    seeds: Sequence[int],
    *,
    num_steps: int = ENDLESS_STEPS,
    actions: NDArray[Any] | None = None,
) -> list[Trajectory]:
    """Records one episode for each of at most EVAL_BLOCK seeds, as many at a time as there are environments.

    Global generators are seeded by the block and put back, as in an evaluation.

    Args:
        num_steps: a longer episode is cut.
        actions: [T, A] or [T] to replay, at least one, as `Trajectory.act`; the policy only says what it would have
            done instead.
    """
    recorded: list[Trajectory] = []
    limit = min(
        num_steps, env.spec.max_episode_steps or ENDLESS_STEPS, ENDLESS_STEPS if actions is None else len(actions)
    )
    with kept_global_generators():
        seed_global_generators(seeds[0])
        for part in blocks_of(seeds, min(env.num_envs, EVAL_BLOCK)):
            chooser = _Replay(Player(policy, EVAL_BLOCK), env.spec.action, actions)
            recorded += _record_part(env, chooser, part, first=len(recorded), limit=limit)
    return recorded


def _record_part(env: BatchEnv, chooser: _Replay, seeds: Sequence[int], *, first: int, limit: int) -> list[Trajectory]:
    """One episode for each seed, in environments that are rows of the block from `first` on."""
    obs = env.reset(padded_seeds(seeds, env.num_envs))
    all_obs, steps, ends = [obs.copy()], list[_Step](), dict[int, tuple[int, str]]()
    for transition in islice(drive(env, InBlock(chooser, env.num_envs, first), obs), limit):
        result = transition.step
        terms = {name: values.copy() for name, values in env.reward_terms().items()}
        steps.append(_Step(chooser.given[first:], chooser.wanted[first:], result.reward.copy(), terms))
        for i in np.flatnonzero(transition.ended).tolist():
            ends.setdefault(i, (len(steps), "terminated" if result.terminated[i] else "truncated"))
        all_obs.append(transition.reached)
        if ends.keys() >= set(range(len(seeds))):
            break
    recorded = []
    for i, seed in enumerate(seeds):
        length, end = ends.get(i, (len(steps), "cut"))
        obs_of_episode = np.stack([each[i] for each in all_obs[: length + 1]])
        recorded.append(Trajectory(env.spec.env_id, seed, obs_of_episode, *_columns(steps[:length], i), end))
    return recorded


def _columns(
    steps: Sequence[_Step], i: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64], dict[str, NDArray[np.float64]]]:
    """act, policy_act, reward and terms of environment i."""
    absent = np.zeros(EVAL_BLOCK)
    names = dict.fromkeys(name for step in steps for name in step.terms)  # in the order of their first steps
    terms = {name: np.array([step.terms.get(name, absent)[i] for step in steps]) for name in names}
    act, policy_act, reward = (np.stack([getattr(step, name)[i] for step in steps]) for name in _Step._fields[:3])
    return act, policy_act, reward, terms


class Given(NamedTuple):
    """Actions to replay.

    Attributes:
        act: [T, A] or [T], as `Trajectory.act`.
        recorded: the episode that they are from, where the file holds it.
        notes: what was changed in them to fit.
    """

    act: NDArray[Any]
    recorded: Trajectory | None
    notes: tuple[str, ...]


def read_actions(path: Path, env: EnvSpec) -> Given:
    """Reads actions to replay.

    Args:
        path: an .npz file with `act` (a saved trajectory has it), or a .csv file with a row of numbers for each step;
            a first row of names is skipped. Actions are the environment's own values; those outside its limits are
            clipped.

    Raises:
        ConfigError: no such file, its actions do not fit the environment, or they were recorded in another one.
    """
    content = _read(path)
    env_id = str(content.get("env_id", env.env_id))
    if env_id != env.env_id:
        hint = "`act` alone, in another file, fits wherever its numbers do"
        raise ConfigError(
            f"--actions: {path}: it was recorded in another environment: {env_id}, not {env.env_id}; {hint}"
        )
    act, notes = _fitted(content["act"], env.action, path)
    if not content.keys() >= {"env_id", "seed", "end", "terms", "term_names", *_ARRAYS}:
        return Given(act, None, notes)
    if content["obs"].shape != (len(act) + 1, env.obs_size) or content["reward"].shape != (len(act),):
        raise ConfigError(f"--actions: {path}: {env_id} was another one when it was recorded: observations differ")
    terms = dict(zip(content["term_names"].tolist(), content["terms"], strict=True))
    fields: dict[str, Any] = {name: content[name] for name in _ARRAYS}
    fields |= {"env_id": env_id, "seed": int(content["seed"]), "end": str(content["end"])}
    return Given(act, Trajectory(**fields, terms=terms), notes)


def recorded_env_id(path: Path) -> str | None:
    """The environment that a file of actions was recorded in, where it says so; errors as `read_actions`."""
    content = _read(path)
    return str(content["env_id"]) if "env_id" in content else None


def _read(path: Path) -> dict[str, NDArray[Any]]:
    try:
        return _read_npz(path) if path.suffix == ".npz" else {"act": _read_csv(path)}
    except (OSError, ValueError, KeyError, BadZipFile) as error:
        raise ConfigError(f"--actions: {path}: not readable as .npz with `act` or as .csv ({error})") from None


def _read_npz(path: Path) -> dict[str, NDArray[Any]]:
    with np.load(path, allow_pickle=False) as file:
        return {"act": file["act"], **{name: file[name] for name in file}}


def _read_csv(path: Path) -> NDArray[np.float64]:
    with path.open(newline="") as file:
        rows = [row for row in csv.reader(file) if row]
    first = 0 if rows and _is_number(rows[0][0]) else 1
    return np.array([[float(cell) for cell in row] for row in rows[first:]])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _fitted(act: NDArray[Any], action: Action, path: Path) -> tuple[NDArray[Any], tuple[str, ...]]:
    """The actions as the environment takes them, and what had to be changed."""
    try:
        return action.read(act)
    except ValueError as error:
        raise ConfigError(f"--actions: {path}: {error}") from None


class Deviation(NamedTuple):
    """How far a replay is from its recording, over the T steps that both have.

    Attributes:
        obs: [T + 1] largest deviation of a column, in standard deviations of the recorded column.
        reward, total: [T] of the reward, and of its sum so far; replayed minus recorded.
        is_equal: to the last bit, and both ended alike; of a replay that was cut, as far as it went.
        words: the same, or where they differ first.
    """

    obs: NDArray[np.float64]
    reward: NDArray[np.float64]
    total: NDArray[np.float64]
    is_equal: bool
    words: str


def deviation(replayed: Trajectory, recorded: Trajectory, columns: Sequence[Column]) -> Deviation:
    """Compares a replay with the recording of the same actions; `columns` names the observation's."""
    length = min(replayed.length, recorded.length)
    scale = recorded.obs.std(axis=0, dtype=np.float64)
    scale[scale == 0.0] = 1.0
    seen, wanted = (one.obs[: length + 1].astype(np.float64) for one in (replayed, recorded))
    apart = np.abs(seen - wanted) / scale
    reward = replayed.reward[:length] - recorded.reward[:length]
    differs = np.flatnonzero(apart.any(axis=1) | np.append(False, reward != 0.0))
    ends = _ends(replayed, recorded, length)
    if len(differs):
        step = int(differs[0])
        column = int(apart[step].argmax())
        what = f"{columns[column].name} is {seen[step, column]:.9g}, was {wanted[step, column]:.9g}"
        if not apart[step].any():
            what = f"the reward is {replayed.reward[step - 1]:.9g}, was {recorded.reward[step - 1]:.9g}"
        words = f"differs from step {step} on ({what}); the return by {reward.sum():.6g} in {length} steps"
        words += ends and f"; {ends}"
    elif ends:
        words = f"equal for {length} steps, then {ends}"
    else:
        part = f"{length} steps" if length == recorded.length else f"the first {length} of its {recorded.length} steps"
        words = f"equal to the recording to the last bit, over {part}"
    is_equal = not (len(differs) or ends)
    return Deviation(apart.max(axis=1), reward, np.cumsum(reward), is_equal, words)


def _ends(replayed: Trajectory, recorded: Trajectory, length: int) -> str:
    """How two episodes went on from a step that both have; empty where they did alike, or one was cut there."""
    both = replayed, recorded
    if len({one.end if one.length == length else "cut" for one in both}) == 1:
        return ""
    now = [f"ended ({one.end})" if one.end != "cut" else "could go on" for one in both]
    replay, recording = (
        f"went on to {one.length}" if one.length > length else words for one, words in zip(both, now, strict=True)
    )
    return f"it {replay}, the recording {recording}"
