"""A policy in training with made-up samples, on any device."""

import numpy as np
import torch

from ddp_ppo.learners.adam_state import AdamState
from ddp_ppo.learners.ppo.loss import Batch
from ddp_ppo.learners.ppo.loss_settings import LossSettings
from ddp_ppo.learners.ppo.updates.torch_update import TorchUpdate
from ddp_ppo.policies.network import NetworkSpec, initial_parameters
from ddp_ppo.policies.torch_policy import ActorCritic

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)
SETTINGS = LossSettings(
    clip_range=0.2, value_clip_range=0.2, entropy_coef=0.01, value_coef=0.5, max_grad_norm=0.5, adam_eps=1e-5
)
NETWORKS = [NetworkSpec(17, head, 6, (64, 64), "tanh") for head in ("gaussian", "categorical")]
TOLERANCE = 1e-5  # between devices, after 50 mini-batches at 3e-4: a step that is left out makes 3e-4


class TrainedPolicy:
    """A policy on a device, its update, and samples that it might have drawn itself."""

    def __init__(self, network, device=CPU, **arguments) -> None:
        parameters = initial_parameters(network, np.random.default_rng(1), -0.5)
        self.policy = ActorCritic(network, torch.from_numpy(parameters).to(device))
        size = network.num_parameters
        self.optimizer = AdamState(*(torch.zeros(shape, device=device) for shape in (size, size, ())))
        self.update = TorchUpdate(self.policy, self.optimizer, SETTINGS, lambda gradient: None, **arguments)

    def train(self, num_samples=100, minibatch_size=30, num_epochs=5):
        """What the epochs report; each has its own learning rate."""
        self.update.load(samples(self.policy, num_samples))
        orders = np.random.default_rng(2)
        return [
            self.update.epoch(orders.permutation(num_samples), minibatch_size, 3e-4 / (1 + epoch))
            for epoch in range(num_epochs)
        ]

    def state(self):
        """Parameters, moments and number of steps, as one vector [3 P + 1]."""
        tensors = (self.policy.flat.data, *vars(self.optimizer).values())
        return torch.cat([tensor.reshape(-1).cpu() for tensor in tensors])


@torch.no_grad()
def samples(policy, num_samples):
    """The same observations, actions, advantages and targets for every policy, with its own values as old ones."""
    network, generator = policy.network, np.random.default_rng(3)
    obs, act = (
        generator.standard_normal((num_samples, n), np.float32) for n in (network.obs_size, network.action_size)
    )
    choice = act.argmax(-1)
    adv, ret = generator.standard_normal((2, num_samples), np.float32)
    arrays = (obs, act if network.head == "gaussian" else choice, adv, ret)
    obs, act, adv, ret = (torch.from_numpy(array).to(policy.flat.device) for array in arrays)
    logp, _, value = policy.evaluate(obs, act)
    return Batch(obs, act, logp, adv, ret, value)
