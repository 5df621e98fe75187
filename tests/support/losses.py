"""A policy of two parameters, and samples whose probability ratios are what they should be."""

import dataclasses
import math

import torch

from ddp_ppo.learners.ppo.loss import Batch
from ddp_ppo.learners.ppo.loss_settings import LossSettings
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.policies.torch_policy import ActorCritic
from tests.support.fixtures import linear_critic

SETTINGS = LossSettings(
    clip_range=0.2, value_clip_range=None, entropy_coef=0.0, value_coef=0.5, max_grad_norm=None, adam_eps=1e-8
)
UNIT_LOGP = -0.5 * math.log(2 * math.pi)  # of action 0 under the unit Gaussian
LINEAR = NetworkSpec(1, "gaussian", 1, (), "tanh")  # with linear_critic: mean 0, std 1, V(s) = s[0]


def settings(**changes):
    """SETTINGS with changes."""
    return dataclasses.replace(SETTINGS, **changes)


def linear_policy():
    """Mean 0, std 1, V(s) = s[0]."""
    return ActorCritic(LINEAR, torch.from_numpy(linear_critic(LINEAR)))


def batch(ratios, advantages, values=None, returns=None, old_values=None):
    """Action 0 in every sample, sampled by a policy that makes each probability ratio what it should be."""
    num_samples = len(ratios)
    values = values or [0.0] * num_samples
    return Batch(
        obs=torch.tensor(values)[:, None],
        act=torch.zeros(num_samples, 1),
        logp=UNIT_LOGP - torch.tensor(ratios).log(),
        adv=torch.tensor(advantages),
        ret=torch.tensor(returns or values),
        value=torch.tensor(old_values or values),
    )
