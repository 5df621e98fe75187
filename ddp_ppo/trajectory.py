"""What happened in an episode, step by step: recorded, kept in a file, compared with another one.

Episodes run as evaluations run them, in blocks of one size, so a recorded episode has the return that an evaluation
gives its seed, to the last bit. Nothing here draws.

Shapes: T steps of the episode, D observation size, A action size, K environments of a block.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.checkpoint import write_atomically
from ddp_ppo.config import ConfigError
from ddp_ppo.episodes import ENDLESS_STEPS, EVAL_BLOCK, ActingPolicy
from ddp_ppo.protocols import BatchEnv, Column, EnvSpec, FloatArray

_ARRAYS = ("obs", "act", "policy_act", "reward")


@dataclass(frozen=True)
class Trajectory:
    """One episode.

    Attributes:
        env_id, seed: what was reset, and how.
        obs: [T + 1, D] raw; the last row is this episode's last observation, not the next one's first.
        act: [T, A] float32 within the bounds or [T] int64: what the environment got.
        policy_act: what the policy wanted; the same unless given actions were replayed.
        reward: [T] raw.
        terms: the reward's named parts, [T] each; NaN where a step did not give one.
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


def record_block(
    env: BatchEnv,
    policy: ActingPolicy,
    seeds: Sequence[int],
    *,
    num_steps: int = ENDLESS_STEPS,
    actions: NDArray[Any] | None = None,
) -> list[Trajectory]:
    """Records one episode for each of at most EVAL_BLOCK seeds.

    Args:
        env: exactly EVAL_BLOCK environments.
        num_steps: a longer episode is cut.
        actions: [T, A] or [T] to replay, at least one; the policy only says what it would have done instead.
    """
    obs = env.reset([*seeds, *[seeds[-1]] * (EVAL_BLOCK - len(seeds))])
    limit = min(
        num_steps, env.spec.max_episode_steps or ENDLESS_STEPS, ENDLESS_STEPS if actions is None else len(actions)
    )
    all_obs, steps, ends = [obs.copy()], list[_Step](), dict[int, tuple[int, str]]()
    while len(steps) < limit and not ends.keys() >= set(range(len(seeds))):
        wanted = policy.mode(obs).copy()
        given = wanted if actions is None else np.repeat(actions[len(steps), None], EVAL_BLOCK, axis=0)
        result = env.step(given)
        terms = {name: values.copy() for name, values in env.reward_terms().items()}
        steps.append(_Step(given, wanted, result.reward.copy(), terms))
        ended = result.terminated | result.truncated
        for i in np.flatnonzero(ended).tolist():
            ends.setdefault(i, (len(steps), "terminated" if result.terminated[i] else "truncated"))
        all_obs.append(np.where(ended[:, None], result.final_obs, result.obs))
        obs = result.obs
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
    missing = np.full(EVAL_BLOCK, np.nan)
    terms = {name: np.array([step.terms.get(name, missing)[i] for step in steps]) for name in steps[0].terms}
    act, policy_act, reward = (np.stack([getattr(step, name)[i] for step in steps]) for name in _Step._fields[:3])
    return act, policy_act, reward, terms


def read_actions(path: Path, env: EnvSpec) -> tuple[NDArray[Any], Trajectory | None]:
    """Reads actions to replay.

    Args:
        path: an .npz file with `act` (a saved trajectory has it), or a .csv file with a row of numbers for each step;
            a first row of names is skipped.

    Returns:
        actions [T, A] float32, clipped to the bounds, or [T] int64; and the trajectory, where the file holds one.

    Raises:
        ConfigError: no such file, or its actions do not fit the environment.
    """
    try:
        content = _read_npz(path) if path.suffix == ".npz" else {"act": _read_csv(path)}
    except (OSError, ValueError, KeyError, BadZipFile) as error:
        raise ConfigError(f"--actions: {path}: not readable as .npz with `act` or as .csv ({error})") from None
    actions = _fitted(content["act"], env, path)
    if not content.keys() >= {"env_id", "seed", "end", "terms", "term_names", *_ARRAYS}:
        return actions, None
    if content["obs"].shape != (len(actions) + 1, env.obs_size) or content["reward"].shape != (len(actions),):
        raise ConfigError(f"--actions: {path}: it was recorded in another environment: {content['env_id']}")
    terms = dict(zip(content["term_names"].tolist(), content["terms"], strict=True))
    fields: dict[str, Any] = {name: content[name] for name in _ARRAYS}
    fields |= {"env_id": str(content["env_id"]), "seed": int(content["seed"]), "end": str(content["end"])}
    return actions, Trajectory(**fields, terms=terms)


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


def _fitted(act: NDArray[Any], env: EnvSpec, path: Path) -> NDArray[Any]:
    """The actions as the environment takes them."""
    width = 1 if env.action_kind == "discrete" else env.action_size
    if act.ndim not in (1, 2) or act.size == 0 or act.size != len(act) * width or not np.isfinite(act).all():
        raise ConfigError(f"--actions: {path}: needs {width} finite number(s) for each step, has shape {act.shape}")
    if env.action_kind == "box":
        low, high = (np.array(bound, np.float32) for bound in (env.action_low, env.action_high))
        return np.clip(act.reshape(-1, width).astype(np.float32), low, high)
    choices = act.reshape(-1).astype(np.int64)
    if (choices != act.reshape(-1)).any() or choices.min() < 0 or choices.max() >= env.action_size:
        raise ConfigError(f"--actions: {path}: choices are whole numbers from 0 to {env.action_size - 1}")
    return choices


class Deviation(NamedTuple):
    """How far a replay is from its recording, over the T steps that both have.

    Attributes:
        obs: [T + 1] largest deviation of a column, in standard deviations of the recorded column.
        reward, total: [T] of the reward, and of its sum so far; replayed minus recorded.
        words: whether they are equal, or where they differ first.
    """

    obs: NDArray[np.float64]
    reward: NDArray[np.float64]
    total: NDArray[np.float64]
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
    words = f"equal to the recording to the last bit, over {length} steps"
    if len(differs):
        step = int(differs[0])
        column = int(apart[step].argmax())
        what = f"{columns[column].name} is {seen[step, column]:.9g}, was {wanted[step, column]:.9g}"
        if not apart[step].any():
            what = f"the reward is {replayed.reward[step - 1]:.9g}, was {recorded.reward[step - 1]:.9g}"
        words = f"differs from step {step} on ({what}); the return by {reward.sum():.6g} in {length} steps"
    return Deviation(apart.max(axis=1), reward, np.cumsum(reward), words)
