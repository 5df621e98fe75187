"""Training with the gradient derived by hand and with autograd, side by side, with every option."""

import dataclasses

import numpy as np
import torch

from ddp_ppo.learners.adam_state import AdamState
from ddp_ppo.learners.ppo.loss import Batch
from ddp_ppo.learners.ppo.loss_settings import LossSettings
from ddp_ppo.learners.ppo.updates.numpy_update import NumpyUpdate
from ddp_ppo.learners.ppo.updates.torch_update import TorchUpdate
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.policies.torch_policy import ActorCritic
from tests.support.fixtures import random_parameters

SETTINGS = LossSettings(
    clip_range=0.2, value_clip_range=None, entropy_coef=0.01, value_coef=0.5, max_grad_norm=0.5, adam_eps=1e-5
)
OPTIONS = {
    "default": {},
    "no entropy": {"entropy_coef": 0.0},
    "much entropy": {"entropy_coef": 1.0},
    "value clip": {"value_clip_range": 0.2},
    "no gradient clip": {"max_grad_norm": None},
    "loose gradient clip": {"max_grad_norm": 100.0},
    "other coefficients": {"clip_range": 0.05, "value_coef": 2.0},
}
NETWORKS = [
    NetworkSpec(5, head, 3, hidden_sizes, activation)
    for head in ("gaussian", "categorical")
    for hidden_sizes in ((), (16,), (8, 16), (7, 3, 9))
    for activation in ("tanh", "relu", "elu")
] + [
    NetworkSpec(5, "gaussian", 3, (8,), "tanh", actor_view=actor_view, critic_view=critic_view)
    for actor_view, critic_view in (
        (((0, 3),), ()),  # an actor that sees less than its critic
        (((2, 5),), ((0, 1), (3, 5))),
    )
]


def random_batch(network, num_samples):
    """Samples of a policy near the one with `random_parameters`: ratios on both sides of both clips."""
    generator = torch.Generator().manual_seed(0)
    obs = torch.randn(num_samples, network.obs_size, generator=generator)
    if network.head == "gaussian":
        act = torch.randn(num_samples, network.action_size, generator=generator)
    else:
        act = torch.randint(network.action_size, (num_samples,), generator=generator)
    policy = ActorCritic(network, torch.from_numpy(random_parameters(network)))
    with torch.no_grad():
        logp, _, value = policy.evaluate(obs, act)
    noise = torch.randn(4, num_samples, generator=generator)
    return Batch(obs, act, logp + 0.2 * noise[0], noise[1], value + noise[2], value + 0.3 * noise[3])


class Training:
    """A policy, its optimizer and one kind of update; keeps the gradients of all mini-batches."""

    def __init__(self, update_class, network, options):
        self.policy = ActorCritic(network, torch.from_numpy(random_parameters(network)))
        zeros = torch.zeros(network.num_parameters)
        self.optimizer = AdamState(zeros.clone(), zeros.clone(), torch.tensor(0.0))
        self.gradients = []
        settings = dataclasses.replace(SETTINGS, **options)
        self.update = update_class(self.policy, self.optimizer, settings, self.keep)

    def keep(self, gradient):
        self.gradients.append(gradient.numpy().copy())

    @property
    def parameters(self):
        return self.policy.flat.detach().numpy()


def both(network, options=OPTIONS["default"]):
    """The one by hand, the one by autograd."""
    return Training(NumpyUpdate, network, options), Training(TorchUpdate, network, options)


def relative_error(actual, expected):
    """Largest difference relative to the largest entry: entries near 0 are differences of large ones."""
    return float(np.abs(actual - expected).max() / np.abs(expected).max())
