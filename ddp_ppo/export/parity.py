"""Whether something acts as the policy does: on real and extreme observations, and in closed loop over an episode.

The reference is the policy in torch, the definition. Everything else, training's own actors included, is compared with
it. Nothing here knows what an artefact is: a `Behaviour` is any function from observations to outputs and actions.

Shapes: N observations, D observation size, A action size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ddp_ppo.actions.action import Action
from ddp_ppo.envs.build import closed_in_the_end, make_batch_env, make_up_to
from ddp_ppo.errors import EnvError
from ddp_ppo.export.run_policy import TOLERANCE
from ddp_ppo.maths.seeding import Purpose, integer_seed, stream
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.policies.torch_policy import ActorCritic
from ddp_ppo.protocols import BoolArray, FloatArray, Policy
from ddp_ppo.runs.model import Model, acting_policy
from ddp_ppo.sampling.drive import Player, drive
from ddp_ppo.sampling.episodes import ENDLESS_STEPS

NUM_REAL, NUM_EXTREME = 2048, 8192
_ENVS = 8
_FEW_TERMS = 256  # of a sum, whose errors stay well within TOLERANCE
_FAR_COLUMNS = 8  # of an extreme observation, at most
_SMALLEST_SPREAD = 1e-2  # so that columns that never changed do
_LARGEST = {True: 6.0, False: 1.0}  # powers of ten, in standard deviations, of extreme observations: normalised or raw


class Acted(NamedTuple):
    """What came of N observations."""

    output: FloatArray  # [N, A] means or logits
    action: NDArray[Any]  # [N, A] within the bounds, or [N] choices from 0


# From raw observations [N, D] and the policy's state [N, S], which is updated in place; S is 0 for feed-forward ones.
Behaviour = Callable[[FloatArray, FloatArray], Acted]


class Parity(NamedTuple):
    """How near to the policy something acts.

    Attributes:
        name: of what acts.
        obs_error: the largest on the real and extreme observations.
        episode_error: the largest along an episode that it steers itself.
        episode_return, episode_length: of that episode. Small differences may grow into other episodes.
        tolerance: the largest error that is allowed.
    """

    name: str
    obs_error: float
    episode_error: float
    episode_return: float
    episode_length: int
    tolerance: float = TOLERANCE

    @property
    def has_passed(self) -> bool:
        """Whether both errors are within the tolerance; NaN is not."""
        return self.obs_error <= self.tolerance and self.episode_error <= self.tolerance


def tolerance_of(network: NetworkSpec) -> float:
    """The largest error that float32 explains: the rounding errors of a sum of n terms grow with the root of n."""
    num_terms = max(layer.inputs for layer in network.trunk("actor"))
    return TOLERANCE * max(1.0, math.sqrt(num_terms / _FEW_TERMS))


def measure(model: Model, candidates: dict[str, Behaviour], obs: FloatArray) -> list[Parity]:
    """Compares each candidate with the policy, on obs [N, D] and in an episode of its own, all with the same seed."""
    reference, action = reference_act(model), model.env.action
    expected = reference(obs, beginning(model, len(obs)))
    return [
        Parity(
            name,
            largest_error(act(obs, beginning(model, len(obs))), expected, action),
            *_episode(model, _Compared(act, reference, model)),
            tolerance_of(model.network),
        )
        for name, act in candidates.items()
    ]


def beginning(model: Model, num_rows: int) -> FloatArray:
    """The policy's state [N, S] at the beginning of episodes."""
    return np.zeros((num_rows, acting_policy(model, 1).state_size), np.float32)


def reference_act(model: Model) -> Behaviour:
    """What everything is compared with: the policy in torch, or a custom policy's own class."""
    return policy_act(model) if ":" in model.info.get("policy_backend", "") else torch_act(model)


def largest_error(got: Acted, expected: Acted, action: Action) -> float:
    """The largest difference of outputs and actions, as a part of the row's largest output; below 1 that counts as 1.

    How far two actions are apart, the action space says: a choice by as much as the reference prefers its own.
    """
    scale = np.maximum(np.abs(expected.output).max(axis=-1, keepdims=True), 1.0)
    difference = np.abs(got.output - expected.output)
    difference = np.maximum(difference, action.disagreement(got.action, expected.action, expected.output))
    return float((difference / scale).max())


def torch_act(model: Model) -> Behaviour:
    """The definition: the policy in torch, on the CPU."""
    policy = ActorCritic(model.network, torch.from_numpy(model.parameters.copy())).eval()
    policy.load_obs_rms_state(model.obs_rms_state)

    def act(obs: FloatArray, state: FloatArray) -> Acted:
        with torch.inference_mode():
            output = policy.actor(policy.normalize(torch.from_numpy(obs))).numpy()
        return Acted(output, decide(model, output))

    return act


def policy_act(model: Model) -> Behaviour:
    """The policy as the actors of a training run it."""

    @cache
    def policy_for(num_rows: int) -> Policy:
        policy = acting_policy(model, num_rows)
        policy.begin(np.random.default_rng(0))  # its noise changes the samples, which nobody reads, not the outputs
        return policy

    def act(obs: FloatArray, state: FloatArray) -> Acted:
        policy = policy_for(len(obs))
        samples = np.empty((len(obs), *policy.head.act_shape), policy.head.act_dtype)
        policy.act(0, obs, samples, state.copy())
        return Acted(policy.outputs[0].copy(), policy.mode(obs, state).copy())

    return act


def decide(model: Model, output: FloatArray) -> NDArray[Any]:
    """The deterministic action of means or logits [N, A]."""
    action = model.env.action
    return action.to_env(action.head.mode(output))


def observations(model: Model) -> FloatArray:
    """NUM_REAL observations of the environment, the policy sampling, then NUM_EXTREME made up from them, [N, D].

    In those a few columns lie up to a million standard deviations away, ten where the policy reads raw observations.
    Not all at once: the rounding errors of sums over thousands of columns would hide what is looked for.

    Raises:
        EnvError: the environment's observations are not finite.
    """
    real = _real_observations(model)
    if not np.isfinite(real).all():
        raise EnvError(f"{model.env.env_id}: an observation is not finite; see ddp-ppo check")
    state = model.obs_rms_state
    centre, spread = (real.mean(0), real.std(0)) if state is None else (state["mean"], np.sqrt(state["var"]))
    spread = np.maximum(spread, _SMALLEST_SPREAD)
    generator = stream(_seed(model), Purpose.EVALUATION)
    shape = NUM_EXTREME, _FAR_COLUMNS
    columns = generator.integers(model.network.obs_size, size=shape)
    size = 10.0 ** generator.uniform(-3.0, _LARGEST[state is not None], shape)
    far = centre[columns] + spread[columns] * size * generator.choice((-1.0, 1.0), shape)
    extreme = real[generator.integers(len(real), size=NUM_EXTREME)]
    np.put_along_axis(extreme, columns, far.astype(np.float32), axis=1)
    return np.concatenate([real, extreme])


def _real_observations(model: Model) -> FloatArray:
    seed = _seed(model)
    with closed_in_the_end(make_up_to(_ENVS, **model.env_arguments), model.env.env_id) as env:
        num_envs = env.num_envs
        player = Player(acting_policy(model, num_envs), num_envs, stream(seed, Purpose.EVALUATION))
        obs = env.reset([integer_seed(seed, Purpose.EVALUATION, index) for index in range(num_envs)])
        collected = [obs.copy()]
        collected += [one.step.obs.copy() for one in islice(drive(env, player, obs), NUM_REAL // num_envs - 1)]
    return np.concatenate(collected)


class _Compared:
    """Steers an episode by one act and compares each of its answers with the reference's on the same observation."""

    def __init__(self, act: Behaviour, reference: Behaviour, model: Model) -> None:
        self._act, self._reference, self._action = act, reference, model.env.action
        self._state, self._reference_state = beginning(model, 1), beginning(model, 1)
        self.errors: list[float] = []

    def choose(self, obs: FloatArray) -> NDArray[Any]:
        """See `Chooser`."""
        acted = self._act(obs.copy(), self._state)
        expected = self._reference(obs.copy(), self._reference_state)
        self.errors.append(largest_error(acted, expected, self._action))
        return acted.action

    def after(self, ended: BoolArray) -> None:
        """See `Chooser`."""
        self._state[ended] = self._reference_state[ended] = 0.0


def _episode(model: Model, compared: _Compared) -> tuple[float, float, int]:
    """One episode: its largest error, return and length."""
    episode_return = 0.0
    with closed_in_the_end(make_batch_env(num_envs=1, **model.env_arguments), model.env.env_id) as env:
        obs = env.reset([integer_seed(_seed(model), Purpose.EVALUATION, 0)])
        for one in islice(drive(env, compared, obs), env.spec.max_episode_steps or ENDLESS_STEPS):
            episode_return += float(one.step.reward[0])
            if one.ended[0]:
                break
    return float(np.max(compared.errors)), episode_return, len(compared.errors)


def _seed(model: Model) -> int:
    return int(model.info.get("seed", 0))
