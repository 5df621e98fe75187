"""Both ranks use every collective; at the end rank 1 leaves while rank 0 waits for it."""

import hashlib
import time

import numpy as np
import torch

from ddp_ppo.config.settings import Config
from ddp_ppo.distributed.group import CollectiveError, LearnerGroup
from ddp_ppo.learners.ppo.learner import PPO, Averaging, fresh
from ddp_ppo.maths.moments import compute_batch_moments, empty_rms_state, merge_rms_states
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.policies.numpy_policy import NumpyPolicy
from ddp_ppo.protocols import EnvSpec
from tests.support.fixtures import random_parameters, sampled_rollout
from tests.support.programs.two_ranks import finish, rank, seen, topology

env = EnvSpec("A", 3, "box", 2, (-1.0, -1.0), (1.0, 1.0))
network = NetworkSpec.for_env(env, (8,), "tanh")


def digest(*tensors):
    """The bits of tensors."""
    return hashlib.sha256(b"".join(tensor.numpy().tobytes() for tensor in tensors)).hexdigest()


def merge_round(learners, history, samples):
    """The history with both ranks' samples."""
    own = compute_batch_moments(samples)
    rows = learners.exchange(np.concatenate([[own["count"]], own["mean"], own["var"]]))
    return merge_rms_states([history, *({"count": row[0], "mean": row[1:2], "var": row[2:]} for row in rows)])


def plain(state):
    """Moments as a list."""
    return [state["count"], *state["mean"].tolist(), *state["var"].tolist()]


def train(averaging):
    """Parameters after a round.

    With so large an epsilon Adam's step is proportional to the gradient: a sum would move twice as far as a mean.
    """
    options = {"adam_eps": 1.0, "max_grad_norm": None, "learning_rate": 0.1}
    config = Config(num_epochs=2, minibatch_size=16, learning_rate_schedule="constant", **options)
    learner = PPO(config, network, fresh(random_parameters(network)), device=torch.device("cpu"), averaging=averaging)
    policy = NumpyPolicy(network, env, 4, 8)
    policy.load(random_parameters(network), None)
    learner.train_step(sampled_rollout(policy, PPO.rollout_fields(network), 8, 4))
    return learner.policy.flat.detach()


def speak(learners):
    """Every collective once, and what it gave."""
    tensors = [torch.full((3,), float(rank + 1)), torch.tensor(float(rank)), torch.full((2, 2), 10.0 * rank)]
    learners.broadcast(tensors)
    seen["broadcast"] = [tensor.tolist() for tensor in tensors]
    vector = torch.tensor([1.0, 2.0, -4.0]) * (1 + 2 * rank)
    learners.average(vector)
    seen["average"] = vector.tolist()
    generator = torch.Generator().manual_seed(rank)
    vectors = [torch.randn(size, generator=generator) for size in (1, 7, 1000, 100_001)]
    for vector in vectors:
        learners.average(vector)
    seen["digest"] = digest(*vectors)
    seen["scalar"] = learners.average_scalar([0.25, 1.0][rank])
    seen["exchange"] = learners.exchange(np.array([rank, 2.0**48 + rank, -0.1, [np.nan, np.inf][rank]])).tolist()
    gathered = learners.gather({"rank": rank, "array": np.full(2, rank)})
    seen["gather"] = [[value["rank"], value["array"].tolist()] for value in gathered]


def learn(learners):
    """Merged moments, and training with averaged gradients."""
    uneven = [np.zeros((4, 1)), np.full((2, 1), 10.0)][rank]
    seen["uneven"] = plain(merge_round(learners, empty_rms_state(1), uneven))
    history, samples = empty_rms_state(1), np.random.default_rng(rank)
    for _ in range(100):
        history = merge_round(learners, history, samples.normal(5.0, 2.0, (64, 1)))
    seen["repeated"] = plain(history)
    together, alone = train(Averaging(learners.average, learners.average_scalar, True)), train(Averaging())
    seen["gradients"] = digest(together)
    seen["difference"] = float((together - alone).abs().max())
    seen["moved"] = float((alone - torch.from_numpy(random_parameters(network))).abs().max())


start = 0.0
try:
    with LearnerGroup(topology, timeout_seconds=60) as group:
        speak(group)
        learn(group)
        if rank == 1:
            finish()
        start = time.monotonic()
        group.average(torch.zeros(3))
except CollectiveError as error:
    seen |= {"error": str(error), "seconds": time.monotonic() - start}
finish()
