"""Whether something acts as the policy does: on real and extreme observations, and in closed loop over an episode.

The reference is the policy in torch, the definition. Everything else, training's own actors included, is compared with
it. Nothing here knows what an artefact is: a `Behaviour` is any function from observations to outputs and actions.

Shapes: N observations, D observation size, A action size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ddp_ppo.envs.build import make_batch_env
from ddp_ppo.errors import EnvError
from ddp_ppo.export.run_policy import TOLERANCE
from ddp_ppo.maths.distributions import prepare_action
from ddp_ppo.maths.seeding import Purpose, integer_seed, stream
from ddp_ppo.policies.numpy_policy import NumpyPolicy
from ddp_ppo.policies.torch_policy import ActorCritic, TorchPolicy
from ddp_ppo.protocols import FloatArray
from ddp_ppo.runs.model import Model, acting_policy
from ddp_ppo.sampling.episodes import ENDLESS_STEPS

NUM_REAL, NUM_EXTREME = 2048, 8192
_ENVS = 8
_SMALLEST_SPREAD = 1e-2  # so that columns that never changed do
_LARGEST = {True: 6.0, False: 1.0}  # powers of ten, in standard deviations, of extreme observations: normalised or raw


class Acted(NamedTuple):
    """What came of N observations."""

    output: FloatArray  # [N, A] means or logits
    action: NDArray[Any]  # [N, A] within the bounds, or [N] choices from 0


Behaviour = Callable[[FloatArray], Acted]


class Parity(NamedTuple):
    """How near to the policy something acts.

    Attributes:
        name: of what acts.
        obs_error: the largest on the real and extreme observations.
        episode_error: the largest along an episode that it steers itself.
        episode_return, episode_length: of that episode. Small differences may grow into other episodes.
    """

    name: str
    obs_error: float
    episode_error: float
    episode_return: float
    episode_length: int

    @property
    def has_passed(self) -> bool:
        """Whether both errors are within TOLERANCE; NaN is not."""
        return self.obs_error <= TOLERANCE and self.episode_error <= TOLERANCE


def measure(model: Model, candidates: dict[str, Behaviour], obs: FloatArray) -> list[Parity]:
    """Compares each candidate with the policy, on obs [N, D] and in an episode of its own, all with the same seed."""
    reference = torch_act(model)
    expected = reference(obs)
    return [
        Parity(name, largest_error(act(obs), expected), *_drive(model, act, reference))
        for name, act in candidates.items()
    ]


def largest_error(got: Acted, expected: Acted) -> float:
    """The largest difference of outputs and actions, as a part of the row's largest output; below 1 that counts as 1.

    A choice differs by as much as the reference prefers its own.
    """
    scale = np.maximum(np.abs(expected.output).max(axis=-1, keepdims=True), 1.0)
    difference = np.abs(got.output - expected.output)
    if expected.action.ndim == expected.output.ndim:
        difference = np.maximum(difference, np.abs(got.action - expected.action))
    elif not np.isin(got.action, range(expected.output.shape[-1])).all():
        return math.inf
    else:
        own, other = (np.take_along_axis(expected.output, each.action[:, None], -1) for each in (expected, got))
        difference = np.maximum(difference, own - other)
    return float((difference / scale).max())


def torch_act(model: Model) -> Behaviour:
    """The definition: the policy in torch, on the CPU."""
    policy = ActorCritic(model.network, torch.from_numpy(model.parameters.copy())).eval()
    policy.load_obs_rms_state(model.obs_rms_state)

    def act(obs: FloatArray) -> Acted:
        with torch.inference_mode():
            output = policy.actor(policy.normalize(torch.from_numpy(obs))).numpy()
        return Acted(output, decide(model, output))

    return act


def actor_act(model: Model) -> Behaviour:
    """The policy as the actors of a training run it."""

    @cache
    def policy_for(num_rows: int) -> NumpyPolicy | TorchPolicy:
        policy = acting_policy(model, num_rows)
        policy.begin(np.random.default_rng(0))  # its noise changes the samples, which nobody reads, not the outputs
        return policy

    def act(obs: FloatArray) -> Acted:
        policy = policy_for(len(obs))
        policy.act(0, obs, np.empty_like(policy.mode(obs)))
        return Acted(policy.outputs[0].copy(), policy.mode(obs).copy())

    return act


def decide(model: Model, output: FloatArray) -> NDArray[Any]:
    """The deterministic action of means or logits [N, A]."""
    if model.env.action_kind == "discrete":
        return np.asarray(output.argmax(axis=-1))
    return prepare_action(output, model.env.action_low, model.env.action_high)[1]


def observations(model: Model) -> FloatArray:
    """NUM_REAL observations of the environment, the policy sampling, then NUM_EXTREME made up, [N, D].

    Those lie up to a million standard deviations away, ten where the policy reads raw observations.

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
    shape = NUM_EXTREME, model.network.obs_size
    size = 10.0 ** generator.uniform(-3.0, _LARGEST[state is not None], shape)
    extreme = centre + spread * size * generator.choice((-1.0, 1.0), shape)
    return np.concatenate([real, extreme]).astype(np.float32)


def _real_observations(model: Model) -> FloatArray:
    num_steps, seed = NUM_REAL // _ENVS, _seed(model)
    policy = acting_policy(model, _ENVS, num_steps)
    policy.begin(stream(seed, Purpose.EVALUATION))
    collected = np.empty((num_steps, _ENVS, model.network.obs_size), np.float32)
    with closing(make_batch_env(num_envs=_ENVS, **model.env_arguments)) as env:
        obs = env.reset([integer_seed(seed, Purpose.EVALUATION, index) for index in range(_ENVS)])
        act = np.empty_like(policy.mode(obs))
        for step in range(num_steps):
            collected[step] = obs
            obs = env.step(policy.act(step, collected[step], act)).obs
    return collected.reshape(NUM_REAL, -1)


def _drive(model: Model, act: Behaviour, reference: Behaviour) -> tuple[float, float, int]:
    """One episode steered by act: its largest error against the reference on the same observations, return, length."""
    errors: list[float] = []
    episode_return = 0.0
    with closing(make_batch_env(num_envs=1, **model.env_arguments)) as env:
        obs = env.reset([integer_seed(_seed(model), Purpose.EVALUATION, 0)])
        for _ in range(env.spec.max_episode_steps or ENDLESS_STEPS):
            acted = act(obs.copy())
            errors.append(largest_error(acted, reference(obs.copy())))
            result = env.step(acted.action)
            episode_return += float(result.reward[0])
            if result.terminated[0] or result.truncated[0]:
                break
            obs = result.obs
    return float(np.max(errors)), episode_return, len(errors)


def _seed(model: Model) -> int:
    return int(model.info.get("seed", 0))
