"""A small environment without a fault, and one class for each fault that `ddp-ppo check` has to find. Torch-free.

`FAULTS` says which stage finds it, as a fault or as a note, and in which words.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from typing import NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from ddp_ppo.protocols import EnvSpec, Step

_LIMIT = 40


class Point(gymnasium.Env):
    """A mass on a plane, pushed in two directions, at most `_LIMIT` steps or until it is 2 away; nothing is wrong."""

    def __init__(self) -> None:
        self.observation_space = Box(-np.inf, np.inf, (4,), np.float32)
        self.action_space = Box(-1.0, 1.0, (2,), np.float32)
        self.state, self.num_steps, self.num_episodes = np.zeros(4), 0, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = self.start()
        self.num_steps = 0
        self.num_episodes += 1
        return self.observe(), {}

    def step(self, action):
        self.num_steps += 1
        self.state = self.state + 0.1 * np.concatenate([self.state[2:], self.push(action)])
        return self.observe(), self.reward(), self.is_away(), False, {}

    def start(self):
        return self.np_random.uniform(-0.5, 0.5, 4)

    def push(self, action):
        return np.asarray(action, np.float64)

    def observe(self):
        return self.state.astype(np.float32)

    def reward(self):
        return -float(np.linalg.norm(self.state[:2]))

    def is_away(self):
        return bool(np.linalg.norm(self.state[:2]) > 2.0)

    def get_state(self):
        return {"state": self.state, "num_steps": self.num_steps, "num_episodes": self.num_episodes}

    def set_state(self, state):
        self.state, self.num_steps = np.array(state["state"]), state["num_steps"]
        self.num_episodes = state["num_episodes"]


class WideDtype(Point):
    def observe(self):
        return self.state.copy()


class ListObservation(Point):
    def observe(self):
        return self.state.tolist()


class WrongShape(Point):
    def observe(self):
        return self.state[:, None].astype(np.float32)


class NanLater(Point):
    def observe(self):
        return np.full(4, np.nan, np.float32) if self.num_steps == 17 else super().observe()


class OutsideSpace(Point):
    def __init__(self):
        super().__init__()
        self.observation_space = Box(-0.75, 0.75, (4,), np.float32)


class SameBuffer(Point):
    def __init__(self):
        super().__init__()
        self.buffer = np.zeros(4, np.float32)

    def observe(self):
        self.buffer[:] = self.state
        return self.buffer


class OrderOfHashes(Point):
    NAMES = frozenset(("hip", "knee", "ankle", "toe", "torso", "head"))

    def observe(self):
        values = dict(zip(sorted(self.NAMES), [*self.state, 5.0, 6.0], strict=True))
        return np.array([values[name] for name in self.NAMES], np.float32)[:4]


class OtherLimits(Point):
    num_built = 0

    def __init__(self):
        super().__init__()
        OtherLimits.num_built += 1
        self.action_space = Box(-1.0, 1.0 + OtherLimits.num_built, (2,), np.float32)


class ConstantColumn(Point):
    def observe(self):
        return np.array([*self.state[:3], 7.0], np.float32)


class BlindObservation(Point):
    def observe(self):
        return np.ones(4, np.float32)


class NoReward(Point):
    def reward(self):
        return None


class ArrayReward(Point):
    def reward(self):
        return np.array([super().reward()])


class InfiniteReward(Point):
    def reward(self):
        return np.inf if self.num_steps == 11 else super().reward()


class ZeroReward(Point):
    def reward(self):
        return 0.0


class NeverEnds(Point):
    def is_away(self):
        return False


class EndsAtOnce(Point):
    def is_away(self):
        return True


class StaysOver(Point):
    """Its end survives the reset."""

    def __init__(self):
        super().__init__()
        self.is_over = False

    def is_away(self):
        self.is_over |= super().is_away()
        return self.is_over


class IntegerFlags(Point):
    def is_away(self):
        return int(super().is_away())


class LimitAsEnd(Point):
    def is_away(self):
        return self.num_steps >= 20


class IgnoresSeed(Point):
    def __init__(self):
        super().__init__()
        self.generator = np.random.default_rng(3)

    def start(self):
        return self.generator.uniform(-0.5, 0.5, 4)


class SameStart(Point):
    def start(self):
        return np.array([0.1, 0.2, 0.0, 0.0])


class SharedGenerator(Point):
    """One generator for all instances, which every reset seeds anew."""

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            SharedGenerator.generator = np.random.default_rng(seed)
        return super().reset(seed=seed)

    def start(self):
        return SharedGenerator.generator.uniform(-0.5, 0.5, 4)

    def push(self, action):
        return super().push(action) + 0.1 * SharedGenerator.generator.standard_normal(2)


class SharedState(Point):
    """Instances push each other."""

    total = np.zeros(2)

    def reset(self, *, seed=None, options=None):
        SharedState.total[:] = 0
        return super().reset(seed=seed)

    def push(self, action):
        SharedState.total += action
        return SharedState.total.copy()


class GlobalGenerator(Point):
    def push(self, action):
        return super().push(action) + 0.1 * np.random.standard_normal(2)


class RandomStep(Point):
    def __init__(self):
        super().__init__()
        self.noise = np.random.default_rng()

    def push(self, action):
        return super().push(action) + 0.1 * self.noise.standard_normal(2)


class LeftoverVelocity(Point):
    """Starts with the velocity that the last episode has ended with; only the very first start is clean."""

    def start(self):
        return np.concatenate([super().start()[:2], self.state[2:]])


class WearsOut(Point):
    """Every reset makes it weaker, but never a reset with the seed of the one before."""

    def push(self, action):
        return super().push(action) / self.num_episodes


class LosesState(Point):
    """Restores all but its velocity."""

    def set_state(self, state):
        super().set_state(state)
        self.state[2:] = 0


class IgnoresAction(Point):
    def push(self, action):
        return np.zeros(2)


class DeadAction(Point):
    def push(self, action):
        return np.array([action[0], 0.0])


class ForgetsTime(NeverEnds):
    """Pays for its time, and does not restore it."""

    def reward(self):
        return super().reward() - 0.01 * self.num_steps

    def set_state(self, state):
        super().set_state(state | {"num_steps": self.num_steps})


class SameEpisode(Point):
    """A reset without a seed seeds the last one again."""

    last_seed = 0

    def reset(self, *, seed=None, options=None):
        self.last_seed = self.last_seed if seed is None else seed
        return super().reset(seed=self.last_seed)


class ConstantReward(NeverEnds):
    def reward(self):
        return 1.0


class LateObservation(Point):
    def step(self, action):
        before = self.observe()
        return before, *super().step(action)[1:]


class RestartsItself(Point):
    """Steps into the next episode by itself; every one starts at rest."""

    def start(self):
        return np.concatenate([super().start()[:2], np.zeros(2)])

    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        if terminated or self.num_steps == 30:
            obs, _ = self.reset()
            terminated = True
        return obs, reward, terminated, truncated, info


class Bandit(EndsAtOnce):
    """Without a time limit an end in every first step may be meant."""


class OtherSum(Point):
    def step(self, action):
        return *super().step(action)[:4], {"reward_near": 1.0, "reward_effort": -float(np.square(action).sum())}


class TruncatesFalls(Point):
    def step(self, action):
        obs, reward, _, _, info = super().step(action)
        return obs, reward, False, bool(abs(self.state[0]) > 0.7), info


class HugePenalty(Point):
    def reward(self):
        return -1e6 if np.linalg.norm(self.state[:2]) > 1 else super().reward()


class Saturates(Point):
    def push(self, action):
        return np.clip(super().push(action), -0.05, 0.05)


class FarColumn(Point):
    def observe(self):
        return np.array([1e6 + 0.1 * self.state[0], *self.state[1:]], np.float32)


class SavesObject(Point):
    def get_state(self):
        return {"state": self}


class Choices(Point):
    """Three choices, of which the last does what the first does."""

    directions = ((1, 0), (0, 1), (1, 0))

    def __init__(self):
        super().__init__()
        self.action_space = Discrete(3)

    def push(self, action):
        return np.array(self.directions[action], np.float64)


class IgnoredChoices(Choices):
    directions = ((1, 0), (1, 0), (1, 0))


class UnboundedAction(Point):
    def __init__(self):
        super().__init__()
        self.action_space = Box(-np.inf, np.inf, (2,), np.float32)


class SwappedLimits(Point):
    def __init__(self):
        super().__init__()
        self.action_space.low, self.action_space.high = self.action_space.high, self.action_space.low


class NoRoom(Point):
    def __init__(self):
        super().__init__()
        self.action_space = Box(np.array([-1, 0], np.float32), np.array([1, 0], np.float32))


class OldReset(Point):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0]


class OldStep(Point):
    def step(self, action):
        obs, reward, terminated, _, info = super().step(action)
        return obs, reward, terminated, info


class SeedlessReset(Point):
    def reset(self):
        return super().reset()


class ResetFails(Point):
    def reset(self, *, seed=None, options=None):
        raise KeyError


class SecondResetFails(Point):
    def reset(self, *, seed=None, options=None):
        if seed is None:
            raise ValueError("no map left")
        return super().reset(seed=seed)


class StepFails(Point):
    def step(self, action):
        if self.num_steps == 12:
            raise ZeroDivisionError("float division by zero")
        return super().step(action)


class Hangs(Point):
    def step(self, action):
        if self.num_steps == 5:
            threading.Event().wait()
        return super().step(action)


class DiesInActor(Point):
    """Works in the first process, ends the others."""

    def __init__(self):
        super().__init__()
        if multiprocessing.parent_process() is not None:
            os._exit(9)


class OwnBatch:
    """A vectorised class without a fault: K points that are pushed along one line."""

    limit = 30

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        self.spec = EnvSpec(
            "tests.support.planted_faults:OwnBatch",
            2,
            "box",
            1,
            (-1.0,),
            (1.0,),
            max_episode_steps=self.limit,
            backend="own",
        )
        self.generators: list[np.random.Generator] = []
        self.state, self.steps = np.zeros((num_envs, 2)), np.zeros(num_envs, np.int64)

    def reset(self, seeds):
        self.generators = [np.random.default_rng(seed) for seed in seeds]
        self._start(np.arange(self.num_envs))
        return self.state.astype(np.float32)

    def _start(self, ids):
        self.steps[ids] = 0
        for i in ids:
            self.state[i] = self.generators[i].uniform(-0.5, 0.5, 2)

    def step(self, action):
        self.steps += 1
        self.state[:, 1] += 0.1 * action[:, 0]
        self.state[:, 0] += 0.1 * self.state[:, 1]
        reward, final_obs = -np.abs(self.state[:, 0]), self.state.astype(np.float32)
        terminated, truncated = np.zeros(self.num_envs, bool), self.is_late()
        self._start(np.flatnonzero(truncated))
        return Step(self.state.astype(np.float32), reward, terminated, truncated, final_obs)

    def is_late(self):
        return self.steps >= self.limit

    def save(self):
        return None

    def restore(self, state):
        raise AssertionError("never asked")

    def reward_terms(self):
        return {}

    def close(self):
        """Holds nothing."""


class OwnRenamed(OwnBatch):
    """Its description has the name of the class that it inherits from; nothing is wrong."""


class OwnWithoutLimit(OwnBatch):
    def is_late(self):
        return self.steps >= 2 * self.limit


class OwnNoReset(OwnBatch):
    """Only its clock starts again at an end."""

    def reset(self, seeds):
        self.steps[:] = 0
        return super().reset(seeds)

    def _start(self, ids):
        if self.steps.any():
            self.steps[ids] = 0
        else:
            super()._start(ids)


class OwnNextFinal(OwnBatch):
    def step(self, action):
        result = super().step(action)
        return result._replace(final_obs=result.obs.copy())


class OwnLateReward(OwnBatch):
    """Its reward is computed after the reset."""

    def step(self, action):
        return super().step(action)._replace(reward=-np.abs(self.state[:, 0]))


class OwnAliased(OwnBatch):
    def step(self, action):
        result = super().step(action)
        return result._replace(final_obs=result.obs)


class OwnDtype(OwnBatch):
    def step(self, action):
        result = super().step(action)
        return result._replace(reward=result.reward.astype(np.float32))


class OwnTuple(OwnBatch):
    def step(self, action):
        return tuple(super().step(action))


class OwnShape(OwnBatch):
    def reset(self, seeds):
        return super().reset(seeds)[0]


class OwnLimits(OwnBatch):
    def __init__(self, num_envs):
        super().__init__(num_envs)
        self.spec = EnvSpec(**(vars(self.spec) | {"action_low": (1.0,), "action_high": (-1.0,)}))


class Fault(NamedTuple):
    """Where a fault is found; without `is_note` the stage fails."""

    stage: str
    words: str  # a pattern
    is_note: bool = False
    settings: dict[str, object] = {}  # noqa: RUF012 - never written to


class Leaking(Point):
    """Keeps 10,000 bytes of every step. Only the stage resources is asked for it, which needs no training."""

    def reward(self):
        self.__dict__.setdefault("kept", []).append(bytes([self.num_steps % 256]) * 10_000)
        return super().reward()


FAULTS = {
    WideDtype: Fault("interface", "dtype float64, its space says float32"),
    ListObservation: Fault("interface", "of length 4, not a NumPy array"),
    WrongShape: Fault("interface", r"shape \(4, 1\).*its space says shape \(4,\)"),
    NanLater: Fault("interface", "step 17: column 0 of the observation is nan"),
    OutsideSpace: Fault("interface", r"its space says \[-0.75, 0.75\]"),
    SameBuffer: Fault("interface", "the array of the call before"),
    ConstantColumn: Fault("random actions", r"1 of 4 columns never change: obs\[3\] = 7", True),
    BlindObservation: Fault("random actions", "the observation never changes: right for a bandit", True),
    NoReward: Fault("interface", "the reward is None"),
    ArrayReward: Fault("interface", r"the reward is an array of shape \(1,\)"),
    InfiniteReward: Fault("interface", "the reward is inf"),
    ZeroReward: Fault("random actions", "every reward of .* random steps is 0"),
    NeverEnds: Fault("random actions", "no episode ended within 2000 steps .*set max_episode_steps"),
    EndsAtOnce: Fault("random actions", "every episode ends in its first step"),
    StaysOver: Fault("random actions", "after the first one every episode ends in its first step"),
    IntegerFlags: Fault("interface", "terminated is of type int"),
    LimitAsEnd: Fault("random actions", "terminated after 20 steps: if that is a time limit", True),
    IgnoresSeed: Fault("repeatability", "reset ignores its seed"),
    SameStart: Fault("first observation", "every seed starts with the same observation", True),
    SharedGenerator: Fault("independence", "something else among 4 than alone"),
    SharedState: Fault("independence", "something else among 4 than alone"),
    GlobalGenerator: Fault("repeatability", "global generator"),
    RandomStep: Fault("repeatability", "a step depends on more than state and action"),
    LeftoverVelocity: Fault("repeatability", "keeps something of the episode before"),
    WearsOut: Fault("repeatability", "a step depends on more than state and action|keeps something"),
    LosesState: Fault("repeatability", "get_state and set_state miss something"),
    IgnoresAction: Fault("small actions", r"no effect within 10 steps.*action\[0\], action\[1\]"),
    DeadAction: Fault("small actions", r"no effect within 10 steps.*: action\[1\]"),
    ForgetsTime: Fault("repeatability", "get_state and set_state miss something"),
    SameEpisode: Fault("random actions", "every episode of an environment starts as its first one did"),
    ConstantReward: Fault("random actions", "every reward is 1 and nothing terminates an episode", True),
    LateObservation: Fault("random actions", "the first step of an episode changes no column", True),
    RestartsItself: Fault("random actions", "the last observation of every episode looks like a first one", True),
    Bandit: Fault("random actions", "every episode ends in its first step: right for a bandit", True),
    OtherSum: Fault("random actions", r"the 2 terms reward_\* do not add up to the reward: up to \d", True),
    TruncatesFalls: Fault("random actions", r"truncated after \d+ .. \d+ steps, which is no time limit", True),
    HugePenalty: Fault("random actions", r"a reward of size 1e\+06 among usual ones of 0.\d+ hides them", True),
    Saturates: Fault(
        "small actions", r"a small action does what the largest does.*: action\[0\] 0.2, action\[1\]", True
    ),
    FarColumn: Fault("random actions", r"float32 can hardly hold .*: obs\[0\] 9999\d\d", True),
    OrderOfHashes: Fault("repeatability", "another process differs .*: does the order of a set matter, or a hash"),
    OtherLimits: Fault("zero actions", r"environment 1 differs from environment 0: action_space.high\[0\] is"),
    SavesObject: Fault(
        "repeatability", "get_state.* is a SavesObject; only arrays and plain values can be saved", True
    ),
    Choices: Fault("small actions", "the same as choice 0 from the start: choice 2", True),
    IgnoredChoices: Fault("small actions", "all choices do the same for 10 steps"),
    UnboundedAction: Fault("interface", "limits of action 0 are not finite"),
    SwappedLimits: Fault("interface", "limits of action 0 are swapped: low 1, high -1"),
    NoRoom: Fault("interface", "limits of action 1 are both 0"),
    OldReset: Fault("interface", r"reset returned an array .*wants \(observation, info\)"),
    OldStep: Fault("interface", "step returned tuple of length 4"),
    SeedlessReset: Fault("interface", "unexpected keyword argument 'seed'"),
    ResetFails: Fault("interface", r"reset\(seed=1\): KeyError.*planted_faults.py:\d+"),
    SecondResetFails: Fault("interface", "no map left"),
    StepFails: Fault("interface", r"step 13: ZeroDivisionError.*planted_faults.py:\d+"),
    Hangs: Fault("interface", "no answer within actor_timeout_seconds=0.5", settings={"actor_timeout_seconds": 0.5}),
    DiesInActor: Fault("training", "exited with 9"),
    OwnWithoutLimit: Fault("random actions", "max_episode_steps is 30, but an episode went on"),
    OwnNoReset: Fault("random actions", "after every end obs and final_obs are the same"),
    OwnNextFinal: Fault("random actions", "after every end obs and final_obs are the same"),
    OwnLateReward: Fault(
        "random actions", "rewards at time limits fit the first observation of the next episode", True
    ),
    OwnAliased: Fault("interface", "final_obs and obs are the same memory"),
    OwnDtype: Fault("interface", "reward has dtype float32, not float64"),
    OwnTuple: Fault("interface", "step returned tuple of length 5 without obs"),
    OwnShape: Fault("interface", r"reset is an array of shape \(2,\)"),
    OwnLimits: Fault("interface", "limits of action 0 are swapped"),
}

_LIMITS = {NeverEnds: None, Bandit: None, ForgetsTime: 50}  # 50 divides what a check likes to step: 100
for _class in (Point, Leaking, *(fault for fault in FAULTS if issubclass(fault, Point))):
    _limit = _LIMITS.get(_class, _LIMIT)
    gymnasium.register(f"{_class.__name__}-v0", entry_point=f"{__name__}:{_class.__name__}", max_episode_steps=_limit)


def env_id_of(fault: type) -> str:
    """What a configuration calls it."""
    return f"{__name__}:{fault.__name__}" + ("-v0" if issubclass(fault, Point) else "")
