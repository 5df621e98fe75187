"""Values of the DiscoRL rule: scalars as two-hot distributions, Retrace targets, and running normalisers.

Retrace: Munos et al. 2016. The squashing: Pohlen et al. 2018. No V-trace and no value function of its own.

Shapes: T transitions, B trajectories, A actions; a bootstrap row makes T + 1.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ddp_ppo.learners.disco.batch import BothHeads, Trajectories
from ddp_ppo.maths.gae import accumulate_backwards

MAX_BIN = 300  # of the support, in squashed space
NUM_BINS = 2 * MAX_BIN + 1
_SQUASH_EPS = 1e-3
_DECAY = 0.99
_VARIANCE_EPS, _STD_EPS = 1e-12, 1e-6


def signed_log(x: Tensor) -> Tensor:
    """sign(x) log(1 + |x|)."""
    return x.sign() * x.abs().log1p()


def signed_hyperbolic(x: Tensor) -> Tensor:
    """Squashes values: sign(x) (sqrt(|x| + 1) - 1) + x / 1000."""
    return x.sign() * ((x.abs() + 1.0).sqrt() - 1.0) + _SQUASH_EPS * x


def signed_parabolic(x: Tensor) -> Tensor:
    """The inverse of `signed_hyperbolic`; in float32 it loses about 3e-5 of the root by cancellation."""
    root = (1.0 + 4.0 * _SQUASH_EPS * (_SQUASH_EPS + 1.0 + x.abs())).sqrt() / (2.0 * _SQUASH_EPS)
    return x.sign() * ((root - 1.0 / (2.0 * _SQUASH_EPS)).square() - 1.0)


def two_hot(squashed: Tensor) -> Tensor:
    """Distributions [..., 601] over the bins with these means [...], clipped to +-300."""
    x = squashed.clamp(-MAX_BIN, MAX_BIN)
    low, up = x.floor(), x.ceil()
    p_low = (up - x) / (up - low + 1e-5)  # 0 on a bin, where low and up are the same
    probabilities = x.new_zeros(*x.shape, NUM_BINS)
    for border, p in ((low, p_low), (up, 1.0 - p_low)):
        place = border.nan_to_num().long() + MAX_BIN  # NaN has no bin, but shows in p
        probabilities.scatter_add_(-1, place.unsqueeze(-1), p.unsqueeze(-1))
    return probabilities


def from_two_hot(probabilities: Tensor) -> Tensor:
    """Means [...], still squashed, of distributions [..., 601] over the bins."""
    return probabilities @ torch.arange(-MAX_BIN, MAX_BIN + 1, device=probabilities.device, dtype=probabilities.dtype)


def scalar_value(logits: Tensor) -> Tensor:
    """Values [...] in units of reward that q logits [..., 601] stand for."""
    return signed_parabolic(from_two_hot(logits.softmax(-1)))


class Moments(NamedTuple):
    """Exponential moving averages of x and x**2 of any number of quantities, and the weight that 0 still has."""

    moment1: Tensor
    moment2: Tensor
    decay_product: Tensor


def fresh_moments(count: int, device: torch.device) -> Moments:
    """Moments [count] before any data."""
    return Moments(*(torch.full((count,), start, device=device) for start in (0.0, 0.0, 1.0)))


def updated(moments: Moments, mean: Tensor, mean_square: Tensor) -> Moments:
    """The moments after data with these means."""
    return Moments(
        _DECAY * moments.moment1 + (1.0 - _DECAY) * mean,
        _DECAY * moments.moment2 + (1.0 - _DECAY) * mean_square,
        _DECAY * moments.decay_product,
    )


def mean_and_std(moments: Moments) -> tuple[Tensor, Tensor]:
    """The unbiased mean and what to divide by, both of the moments' shape."""
    mean = moments.moment1 / (1.0 - moments.decay_product)
    variance = (moments.moment2 / (1.0 - moments.decay_product) - mean.square()).clamp(min=0.0)
    return mean, (variance + _VARIANCE_EPS).sqrt() + _STD_EPS


def retrace(reward: Tensor, discount: Tensor, *, target_q: Tensor, target_v: Tensor, trace: Tensor) -> Tensor:
    """Retrace targets G [T, B]: G_t = r_t + g_t (v_{t+1} + c_{t+1} (G_{t+1} - q_{t+1})), in the last row without c.

    Args:
        reward: r [T, B].
        discount: g [T, B], 0 where the step ended its episode.
        target_q: q [T, B], the target network's value of the taken actions.
        target_v: v [T + 1, B], its mean under the policy.
        trace: c [T, B], lambda min(1, rho).
    """
    total = reward + discount * target_v[1:]
    decay = torch.zeros_like(total)
    decay[:-1] = discount[:-1] * trace[1:]
    total[:-1] -= decay[:-1] * target_q[1:]
    accumulate_backwards(total, decay)
    return total


class Values(NamedTuple):
    """What the rule knows of values; q is the target network's, q_value the online network's, both in reward units."""

    rho: Tensor  # [T, B]
    v: Tensor  # [T + 1, B] mean of q_value under the policy
    q: Tensor  # [T + 1, B, A]
    q_value: Tensor  # [T + 1, B, A]
    q_target: Tensor  # [T, B] Retrace
    adv: Tensor  # [T, B] q_target minus the target network's mean value
    qv_adv: Tensor  # [T + 1, B, A] q minus the same
    q_td: Tensor  # [T, B] q_target minus q_value of the taken action


def estimate(heads: BothHeads, batch: Trajectories, *, gamma: float, retrace_lambda: float) -> Values:
    """Values and Retrace targets of a batch; the online policy weighs both networks' q."""
    pi = heads.online.logits.softmax(-1)
    act = batch.act.unsqueeze(-1)
    q_value, q = scalar_value(heads.online.q), scalar_value(heads.target.q)
    v, target_v = (pi * q_value).sum(-1), (pi * q).sum(-1)
    rho = (pi[:-1].gather(-1, act) / batch.logits.softmax(-1).gather(-1, act)).squeeze(-1)
    taken_q, taken_q_value = (each[:-1].gather(-1, act).squeeze(-1) for each in (q, q_value))
    discount = gamma * (1.0 - batch.ended.to(rho.dtype))
    q_target = retrace(
        batch.reward, discount, target_q=taken_q, target_v=target_v, trace=retrace_lambda * rho.clamp(max=1.0)
    )
    return Values(
        rho, v, q, q_value, q_target, q_target - target_v[:-1], q - target_v.unsqueeze(-1), q_target - taken_q_value
    )


class Normalized(NamedTuple):
    """Advantages in units of the standard deviation of `adv`, its mean removed."""

    adv: Tensor  # [T, B]
    qv_adv: Tensor  # [T + 1, B, A]


def normalize(values: Values, moments: Moments) -> Normalized:
    """Both kinds of advantage by the moments [2] of (adv, q_td), this update's data included."""
    mean, std = (each[0] for each in mean_and_std(moments))
    return Normalized((values.adv - mean) / std, (values.qv_adv - mean) / std)
