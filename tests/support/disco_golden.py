"""Reference data of the DiscoRL rule for tests, and agents, batches and weights that need none.

The data (the published weights and what the reference implementation computes with them) is no part of the project: it
lies in the folder that DDP_PPO_DISCO_DATA names, or in ../shared/disco. Tests that need it are skipped without it, and
those that need the weights alone take them from DDP_PPO_DISCO_WEIGHTS too.
"""

from __future__ import annotations

import os
import unittest
from functools import cache
from pathlib import Path

import numpy as np
import torch

from ddp_ppo.config.settings import Config
from ddp_ppo.learners.disco.agent import Agent, AgentSpec, initial_parameters
from ddp_ppo.learners.disco.batch import BothHeads, Heads, TakenHeads, Trajectories
from ddp_ppo.learners.disco.meta_network import MetaNetwork, RnnState
from ddp_ppo.learners.disco.rule import RuleState
from ddp_ppo.learners.disco.values import Moments, Normalized, Values
from ddp_ppo.learners.disco.weights import SHAPES, load_weights
from ddp_ppo.sampling.rollout import Rollout, rollout_shapes

ROOT = Path(__file__).resolve().parents[2]
_PLACES = (Path(os.environ.get("DDP_PPO_DISCO_DATA") or "/nonexistent"), ROOT.parent / "shared" / "disco")
DATA = next((place for place in _PLACES if place.is_dir()), _PLACES[0])
WEIGHTS = Path(os.environ.get("DDP_PPO_DISCO_WEIGHTS") or DATA / "disco_103.npz")
needs_weights = unittest.skipUnless(
    WEIGHTS.is_file(), "needs DiscoRL's published weights; DDP_PPO_DISCO_WEIGHTS names the file"
)
needs_data = unittest.skipUnless(
    WEIGHTS.is_file() and (DATA / "golden").is_dir(),
    "needs DiscoRL's reference data; DDP_PPO_DISCO_DATA names its folder",
)

CPU = torch.device("cpu")
_PUBLISHED = {"learner": "disco", "learning_rate": 1e-2, "learning_rate_schedule": "constant", "gamma": 0.997}
STATS = ("moment1", "moment2", "decay_product")
SMALL_AGENT = {"hidden_sizes": (24, 16), "model_size": 12, "head_size": 10}  # of update5_*.npz
_MODULES = {
    "torso.0": "~_embedding_pass/torso/~/linear_0",
    "torso.1": "~_embedding_pass/torso/~/linear_1",
    "logits": "~_head_pass/torso_head/~/linear_0",
    "y": "~_head_pass/torso_head_1/~/linear_0",
    "root": "linear",
    "model": "action_cond/linear",
    "z": "mlp",
    "aux_pi": "mlp_1",
    "q": "mlp_2",
}


@cache
def golden(name):
    """The arrays of golden/<name>.npz as tensors."""
    with np.load(DATA / "golden" / f"{name}.npz") as file:
        return {key: torch.from_numpy(file[key].copy()) for key in file.files}


@cache
def published_meta():
    """The meta-network with the published weights."""
    return MetaNetwork(load_weights(WEIGHTS), CPU)


def disco_config(**settings) -> Config:
    """The settings of the published example, with changes."""
    return Config(**{**_PUBLISHED, "seed": 0, **settings})


def random_meta(seed=0):
    """A meta-network with random weights."""
    generator = np.random.default_rng(seed)
    return MetaNetwork(
        {name: generator.normal(0.0, 0.3, shape).astype(np.float32) for name, shape in SHAPES.items()}, CPU
    )


def of_max(found, expected):
    """The largest difference, relative to the largest entry of what is expected."""
    assert found.shape == expected.shape, (found.shape, expected.shape)
    return float((found.detach() - expected).abs().max() / expected.abs().max())


class RuleCase:
    """One call of the rule in golden/rule_A<A>.npz: `fresh` at an agent's birth or `warm` later."""

    def __init__(self, num_actions, case):
        self.arrays, self.case = golden(f"rule_A{num_actions}"), case
        given = {key.removeprefix("in/"): array for key, array in self.arrays.items() if key.startswith("in/")}
        self.raw = {name: given[f"agent_out/{name}"].clone() for name in ("logits", "y", "z", "q", "aux_pi")}
        self.heads = BothHeads(
            Heads(*(self.raw[name] for name in Heads._fields)),
            Heads(*(given[f"target_out/{name}"] for name in Heads._fields)),
        )
        self.batch = Trajectories(
            torch.empty(9, 4, 0),
            given["actions"][:-1].long(),
            given["behaviour_out/logits"][:-1],
            given["rewards"],
            given["is_terminal"].bool(),
            given["mask"].bool(),
        )
        self.state = self.state_of("state_in")

    def __getitem__(self, name):
        return self.arrays[f"{self.case}/{name}"]

    def state_of(self, name):
        """The rule's state before or after the call."""
        stats = [torch.stack([self[f"{name}/{kind}/{stat}"] for kind in ("adv_ema", "td_ema")]) for stat in STATS]
        return RuleState(RnnState(self[f"{name}/hidden"], self[f"{name}/cell"]), Moments(*stats))

    def values(self):
        """The values as stored."""
        names = {"v": "v_scalar"}
        stored = [self[f"value/{names.get(name, name)}"] for name in Values._fields if name != "rho"]
        return Values(self.arrays["value/rho"], *stored)

    def normalized(self):
        """The normalised advantages as stored."""
        return Normalized(self["value/normalized_adv"], self["value/normalized_qv_adv"])

    def taken_heads(self):
        """What is trained, with gradients to `raw`."""
        for tensor in self.raw.values():
            tensor.requires_grad_(True)
        index = torch.arange(8)[:, None], torch.arange(4)[None], self.batch.act
        return TakenHeads(
            self.raw["logits"][:-1], self.raw["y"][:-1], *(self.raw[name][index] for name in ("z", "q", "aux_pi"))
        )


def rule_cases():
    """All of them."""
    return [(f"{case}, {actions} actions", RuleCase(actions, case)) for actions in (2, 3) for case in ("fresh", "warm")]


def haiku_parameters(arrays, prefix, spec):
    """The flat vector [P] of an agent's arrays `<prefix>/mlp/<module>/{w,b}`."""
    pieces = []
    for name in spec.layers:
        head, _, depth = name.partition(".")
        module = _MODULES.get(name) or f"{_MODULES[head]}/~/linear_{depth}"
        pieces += [arrays[f"{prefix}/mlp/{module}/{leaf}"].flatten() for leaf in ("w", "b")]
    return torch.cat(pieces)


def small_agent(arrays, num_actions):
    """The agent of golden/update5_A<A>.npz at its birth."""
    spec = AgentSpec(4, num_actions, **SMALL_AGENT)
    return Agent(spec, haiku_parameters(arrays, "params_0", spec))


def random_agent(spec, seed=0):
    """An agent at its birth."""
    return Agent(spec, torch.from_numpy(initial_parameters(spec, np.random.default_rng(seed))))


def golden_batch(arrays, step, columns=slice(None)):
    """The batch of one step of golden/update5_*.npz, where rewards stand with the observation they came with."""
    rows = {key: arrays[f"rollout/{key}"][step][:, columns] for key in ("obs", "rewards", "discounts")}
    act, logits = (arrays[f"rollout/{key}"][step][:-1, columns] for key in ("actions", "behaviour_logits"))
    ended, mask = rows["discounts"][1:] == 0, rows["discounts"][:-1] > 0
    return Trajectories(rows["obs"], act.long(), logits, rows["rewards"][1:], ended, mask)


def random_batch(num_steps, num_envs, num_actions, *, obs_size=4, seed=0):
    """A batch with some ends of episodes."""
    generator = torch.Generator().manual_seed(seed)
    ended = torch.rand(num_steps, num_envs, generator=generator) < 0.1
    return Trajectories(
        torch.randn(num_steps + 1, num_envs, obs_size, generator=generator),
        torch.randint(num_actions, (num_steps, num_envs), generator=generator),
        torch.randn(num_steps, num_envs, num_actions, generator=generator),
        torch.randn(num_steps, num_envs, generator=generator),
        ended,
        torch.cat([torch.ones(1, num_envs, dtype=torch.bool), ~ended[:-1]]),
    )


def random_rollout(fields, num_steps, num_envs, *, seed=0):
    """A filled rollout with some ends of episodes."""
    generator = np.random.default_rng(seed)
    shapes = rollout_shapes(fields, num_steps, num_envs)
    arrays = {name: np.zeros(shape, dtype) for name, (dtype, shape) in shapes.items()}
    for name in ("obs", "reward", "logits"):
        arrays[name][:] = generator.normal(size=arrays[name].shape)
    for name in ("terminated", "truncated"):
        arrays[name][:] = generator.random(arrays[name].shape) < 0.1
    arrays["act"][:] = generator.integers(arrays["logits"].shape[-1], size=arrays["act"].shape)
    rollout = Rollout(arrays)
    rollout.fill()
    return rollout
