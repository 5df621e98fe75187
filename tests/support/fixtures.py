"""Environments for tests, registered with Gymnasium: `tests.support.fixtures:Count-v0` and so on. Torch-free.

Every environment takes plain values, so that a configuration can build it in any process. `Watched` gives each one its
number in this process (an actor's own environments come first, those it evaluates in after them).
"""

from __future__ import annotations

import ctypes
import json
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from dataclasses import asdict
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from ddp_ppo.learners.ppo.annotate import annotate_ppo
from ddp_ppo.maths.moments import empty_rms_state
from ddp_ppo.protocols import ActorReport
from ddp_ppo.sampling.rollout import REWARD_CLIP, Discounting, Normalization, Rollout, rollout_shapes

_ANY = Box(-np.inf, np.inf, (1,), np.float32)


def column(value):
    """An observation of one number."""
    return np.array([value], np.float32)


class Watched(gymnasium.Env):
    """One number observed, two choices; numbers its instances, and writes a letter per call to `folder` if given.

    The file `folder/<pid>-<number>` then holds r, s and c for every real reset, step and close.
    """

    num_built = 0  # in this process

    def __init__(self, folder: str | None = None) -> None:
        self.number = Watched.num_built
        Watched.num_built += 1
        self.observation_space, self.action_space = _ANY, Discrete(2)
        self._log = None if folder is None else Path(folder) / f"{os.getpid()}-{self.number}"

    def note(self, letter: str) -> None:
        """Adds one letter to this environment's file."""
        if self._log is not None:
            with self._log.open("a") as file:
                file.write(letter)

    def close(self) -> None:
        """Notes the call."""
        self.note("c")


class Script(Watched):
    """Replays fixed rewards; after the flagged step the next episode starts over.

    `obs[t]` is observed after step t, `reset_obs` after a reset. Use different numbers, so that a wrong one shows.
    """

    def __init__(self, rewards, obs, reset_obs, term_at=None, trunc_at=None, folder=None) -> None:
        super().__init__(folder)
        self.rewards, self.obs, self.reset_obs = rewards, obs, reset_obs
        self.term_at, self.trunc_at = term_at, trunc_at
        self.step_index = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.note("r")
        self.step_index = 0
        return column(self.reset_obs), {}

    def step(self, action):
        self.note("s")
        t, self.step_index = self.step_index, self.step_index + 1
        return column(self.obs[t]), self.rewards[t], t == self.term_at, t == self.trunc_at, {}


class Count(Watched):
    """Reward 1 at every step, terminated after `length` steps, observation [t]; its state can be saved."""

    def __init__(self, length: float = math.inf, folder=None) -> None:
        super().__init__(folder)
        self.length, self.t = length, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.note("r")
        self.t = 0
        return column(0), {}

    def step(self, action):
        self.note("s")
        self.t += 1
        return column(self.t), 1.0, self.t >= self.length, False, {}

    def get_state(self):
        return {"t": self.t}

    def set_state(self, state) -> None:
        self.t = state["t"]


class LateTerm(Count):
    """`Count` whose infos hold a term of the reward, 0.5, from step 20 of each episode on."""

    def step(self, action):
        obs, reward, terminated, truncated, _ = super().step(action)
        return obs, reward, terminated, truncated, {"reward_late": 0.5} if self.t >= 20 else {}


class Bonus(Count):
    """`Count` whose last step of an episode names a term of the reward, 1; in episodes before `first` none does."""

    def __init__(self, length=5, first=1) -> None:
        super().__init__(length)
        self.first, self.episode = first, 0

    def reset(self, *, seed=None, options=None):
        self.episode += 1
        return super().reset(seed=seed)

    def step(self, action):
        obs, reward, terminated, truncated, _ = super().step(action)
        is_paid = terminated and self.episode >= self.first
        return obs, reward, terminated, truncated, {"reward_success": 1.0} if is_paid else {}


class Forgetful(Count):
    """`Count` without a way to save its state."""

    get_state = set_state = None


class Misbehaving(Count):
    """`Count` that goes wrong at step `at` (1-based, since it was built) of the environment with this number.

    `how`: "raise", "hang", "exit", "nan_obs", "inf_reward", "nan_reward", "shape"; "sys_exit"; "lost_peer", its own
    connection; "stop", by a signal; "fork", and the child goes on; "exit_with_child", which keeps what is open; "start"
    another program, whose pid is then in `folder`.
    """

    def __init__(self, how: str, at: int = 40, number: int = 0, length: float = math.inf, folder=None) -> None:
        super().__init__(length, folder)
        self.how, self.at, self.only, self.folder = how, at, number, folder
        self.num_steps = 0

    def step(self, action):
        self.num_steps += 1
        obs, reward, terminated, truncated, info = super().step(action)
        if self.num_steps == self.at and self.number == self.only:
            if self.how == "raise":
                raise ValueError("boom-17")
            if self.how == "hang":
                threading.Event().wait()
            if self.how == "exit":
                os._exit(7)
            if self.how == "sys_exit":
                sys.exit()
            if self.how == "lost_peer":
                raise ConnectionResetError("simulator gone")
            if self.how == "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            if self.how == "fork":
                os.fork()
            if self.how == "exit_with_child":
                libc = ctypes.CDLL(None)
                os._exit(7 if libc.fork() else libc.sleep(60))  # Python knows nothing of this child
            if self.how == "start":
                sleeper = subprocess.Popen(["sleep", "60"])
                Path(self.folder, "sleeper").write_text(str(sleeper.pid))
            obs = {"nan_obs": column(np.nan), "shape": np.zeros(3, np.float32)}.get(self.how, obs)
            reward = {"inf_reward": np.inf, "nan_reward": np.nan}.get(self.how, reward)
        return obs, reward, terminated, truncated, info


class RewardType(Count):
    """`Count` whose reward 1 has another type: "array", "int", "float32", "bool" or "none"."""

    def __init__(self, kind: str, length: float = math.inf) -> None:
        super().__init__(length)
        self.reward = {"array": np.array([1.0]), "int": 1, "float32": np.float32(1), "bool": True, "none": None}[kind]

    def step(self, action):
        obs, _, terminated, truncated, info = super().step(action)
        return obs, self.reward, terminated, truncated, info


class Dice(Count):
    """Observes two draws: from the environment's own generator and from NumPy's global one.

    Environments with a number of `shift_from` or more observe `shift` more.
    """

    def __init__(self, length: float = 5, shift: float = 0.0, shift_from: int = 0, folder=None) -> None:
        super().__init__(length, folder)
        self.observation_space = Box(-np.inf, np.inf, (2,), np.float32)
        self.shift = shift if self.number >= shift_from else 0.0

    def draw(self):
        """The next observation."""
        return np.array([self.np_random.standard_normal(), np.random.randn()], np.float32) + np.float32(self.shift)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.draw(), {}

    def step(self, action):
        _, reward, terminated, truncated, info = super().step(action)
        return self.draw(), reward, terminated, truncated, info


class ForgetfulDice(Dice):
    """`Dice` whose state cannot be saved."""

    get_state = set_state = None


class SeedLength(Count):
    """`Count` whose first episode has as many steps as its seed says, later ones one step; for small seeds."""

    def reset(self, *, seed=None, options=None):
        self.length = 1 if seed is None else seed
        return super().reset(seed=seed)


class Echo(Count):
    """A continuous action in [-1, 1], which is also the reward: what arrived can be read from the rewards."""

    def __init__(self, length: float = math.inf) -> None:
        super().__init__(length)
        self.action_space = Box(-1.0, 1.0, (1,), np.float32)

    def step(self, action):
        obs, _, terminated, truncated, info = super().step(action)
        return obs, float(action[0]), terminated, truncated, info


class Witness(Count):
    """`Count` that writes what it sees of its process to `folder/<pid>-<number>.json` at its 10th step."""

    def __init__(self, folder: str, length: float = 5) -> None:
        super().__init__(length)
        self.report = Path(folder) / f"{os.getpid()}-{self.number}.json"
        self.num_steps = 0

    def step(self, action):
        self.num_steps += 1
        if self.num_steps == 10:
            seen = {
                "has_torch": "torch" in sys.modules,
                "num_threads": len(os.listdir("/proc/self/task")),
                "parent": os.getppid(),
            }
            if multiprocessing.parent_process() is not None:  # an actor, not the trial before a run
                self.report.write_text(json.dumps(seen))
        return super().step(action)


class Unbuildable(Count):
    """Raises when it is built."""

    def __init__(self) -> None:
        raise RuntimeError("no licence-4711")


class Unwell(Count):
    """`Count` that goes wrong in the learner, which builds and closes one to see what it is.

    `how`: "exit", "stuck"; "close", "hang" (in close); "move" to another folder; "thread", which never ends.
    """

    def __init__(self, how: str, length: float = 5) -> None:
        super().__init__(length)
        self.how = how
        if how == "exit":
            sys.exit("no licence-4712")
        if how == "stuck":
            threading.Event().wait()
        if how == "move":
            os.chdir("/")
        if how == "thread":
            threading.Thread(target=threading.Event().wait).start()

    def close(self) -> None:
        if self.how == "close":
            raise RuntimeError("no end-4713")
        if self.how == "hang":
            threading.Event().wait()


class DictObs(Count):
    """Its observation space is not supported."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = Dict({"position": _ANY})


class TwoChoices(Count):
    """Its action space is not supported."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = MultiDiscrete([2, 3])


def linear_critic(network):
    """Parameters of a linear policy (no hidden layer) with V(s) = s[0] exactly and all action outputs 0."""
    flat = np.zeros(network.num_parameters, np.float32)
    network.trunk("critic")[-1].view(flat)[0, 0] = 1.0
    return flat


def random_parameters(network, seed=0):
    """Parameters [P] with outputs of order 1, so that every path through the network matters."""
    generator = np.random.default_rng(seed)
    flat = np.zeros(network.num_parameters, np.float32)
    for layer in network.layers:
        layer.view(flat)[:] = generator.normal(0.0, layer.inputs**-0.5, (layer.inputs + 1, layer.outputs))
    flat[network.log_std_slice] = generator.uniform(-0.7, 0.3, len(flat[network.log_std_slice]))
    return flat


def report(**fields):
    """An actor's report of a rollout in which nothing happened, but for the given fields."""
    episodes = {"episodes": 0, "episode_return_sum": 0.0, "episode_len_sum": 0, "episode_terminations": 0}
    moments = {"obs_rms_moments": {}, "return_rms_moments": {}}
    seconds = {"sample_seconds": 1.0, "annotate_seconds": 0.0}
    rest = {
        "actor_id": 0,
        "num_envs": 1,
        "episode_ends": [],
        "episode_returns": [],
        "reward_terms": {},
        "overlap": "",
        "state": {},
    }
    return ActorReport(**{**episodes, **moments, **seconds, **rest, **fields})


def whole_checkpoint(network, env):
    """What a run of one learner with one actor and one environment saves, but for the round; as NumPy arrays."""
    flat = random_parameters(network)
    adam = {"exp_avg": np.zeros_like(flat), "exp_avg_sq": np.zeros_like(flat), "step": 4.0, "learning_rate": 1e-3}
    episode = {"episode_return": np.zeros(1), "episode_length": np.zeros(1, int), "discounted_return": np.zeros(1)}
    return {
        "network": asdict(network),
        "env": asdict(env),
        "env_steps": 64,
        "elapsed_seconds": 1.5,
        "best_return": math.nan,
        "eval_return": math.nan,
        "obs_rms_state": empty_rms_state(network.obs_size),
        "return_rms_state": empty_rms_state(1),
        "ranks": [{"learner": {"parameters": flat, **adam}, "actors": [{"env": None, **episode}]}],
    }


def sampled_rollout(
    policy, fields, num_steps, num_envs, *, seed=0, gamma=0.9, gae_lambda=0.8, state=None, reward_scale=1.0
):
    """A filled rollout of a policy that was loaded with `state`: random observations, rewards and ends of episodes.

    It is annotated for PPO.
    """
    generator = np.random.default_rng(seed)
    shapes = rollout_shapes(fields, num_steps, num_envs)
    arrays = {name: np.zeros(shape, dtype) for name, (dtype, shape) in shapes.items()}
    for name in ("obs", "final_obs", "reward"):
        arrays[name][:] = generator.normal(0.5, 2.0, arrays[name].shape)
    for name in ("terminated", "truncated"):
        arrays[name][:] = generator.random(arrays[name].shape) < 0.1
    arrays["final_obs"][~arrays["truncated"]] = np.nan  # nobody may read these
    policy.begin(generator)
    for step in range(num_steps):
        policy.act(step, arrays["obs"][step], arrays["act"][step])
    annotate_ppo(policy, arrays, Discounting(gamma, gae_lambda, reward_scale, REWARD_CLIP))
    rollout = Rollout(arrays)
    rollout.fill(Normalization(state, reward_scale))
    return rollout


for _class in (
    Script,
    Count,
    LateTerm,
    Bonus,
    Forgetful,
    Misbehaving,
    RewardType,
    Dice,
    ForgetfulDice,
    SeedLength,
    Echo,
    Witness,
    Unbuildable,
    Unwell,
    DictObs,
    TwoChoices,
):
    gymnasium.register(f"{_class.__name__}-v0", entry_point=f"{__name__}:{_class.__name__}")
gymnasium.register("CountEnv-v0", entry_point=f"{__name__}:Count")
gymnasium.register("ShortCatch-v0", entry_point="ddp_ppo.tasks.catch:Catch", max_episode_steps=5)
gymnasium.register("Limited-v0", entry_point=f"{__name__}:Count", max_episode_steps=5)
