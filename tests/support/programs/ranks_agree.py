"""Two learners after a round: what they find where one of them differs, what they merge, what they average."""

import numpy as np
import torch

from ddp_ppo.config.settings import Config
from ddp_ppo.distributed.group import LearnerGroup
from ddp_ppo.learners.ppo.learner import PPO, fresh
from ddp_ppo.maths.moments import compute_batch_moments, empty_rms_state
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.protocols import EnvSpec
from ddp_ppo.runs.metric_table import Metric
from ddp_ppo.training.sync import ConsistencyError, Statistics, average_common, exchange
from tests.support.fixtures import random_parameters
from tests.support.programs.two_ranks import finish, rank, seen, topology

env = EnvSpec("A", 3, "box", 2, (-1.0, -1.0), (1.0, 1.0))
network = NetworkSpec.for_env(env, (8,), "tanh")
empty = Statistics(empty_rms_state(3), empty_rms_state(1))


def make_learner(seed=0):
    """A learner that has trained a little."""
    learner = PPO(Config(), network, fresh(random_parameters(network, seed)), device=torch.device("cpu"))
    learner.optimizer.exp_avg.fill_(0.1)
    learner.optimizer.exp_avg_sq.fill_(0.2)
    learner.optimizer.step.fill_(7.0)
    return learner


def history():
    """Statistics of some rounds."""
    obs = compute_batch_moments(np.arange(12.0).reshape(4, 3))
    return Statistics(obs, compute_batch_moments(np.arange(4.0).reshape(4, 1)))


def actor(values, episodes=0, returns=0.0, length=0, terminations=0):
    """What an actor reports that has seen these values."""
    return {
        "episodes": episodes,
        "episode_return_sum": returns,
        "episode_len_sum": length,
        "episode_terminations": terminations,
        "obs_rms_moments": compute_batch_moments(np.tile(np.array(values, np.float64)[:, None], 3)),
        "return_rms_moments": None,
    }


def one_round(learner, statistics, *, stats=None, metrics=None, stop=None, is_synced=True):
    """What comes of a round."""
    return exchange(
        group,
        learner,
        statistics,
        stats=stats or [actor([0.0])],
        metrics=metrics or {"buffer_size": 1.0, "train/gradient_steps": 1.0},
        stop_signal=stop,
        is_synced=is_synced,
    )


def complaint(break_it, is_synced=True):
    """What is said where rank 1 has changed something; empty where nothing is."""
    learner, statistics = make_learner(), history()
    if rank == 1:
        statistics = break_it(learner, statistics) or statistics
    try:
        one_round(learner, statistics, is_synced=is_synced)
    except ConsistencyError as error:
        return str(error)
    return ""


def set_parameter(learner, statistics):
    """A single bit."""
    flat = learner.policy.flat.data.numpy()
    flat[5] = np.nextafter(flat[5], np.float32(9))


def set_exp_avg(learner, statistics):
    """The mean of the gradients."""
    learner.optimizer.exp_avg[0] = 0.5


def set_exp_avg_sq(learner, statistics):
    """The mean of their squares."""
    learner.optimizer.exp_avg_sq[3] = 0.5


def set_step(learner, statistics):
    """The number of steps."""
    learner.optimizer.step.fill_(8.0)


def set_rate(learner, statistics):
    """The learning rate."""
    learner.learning_rate *= 0.5


def set_obs(learner, statistics):
    """One more observation."""
    return statistics._replace(obs={**statistics.obs, "count": statistics.obs["count"] + 1.0})


def set_returns(learner, statistics):
    """A mean return that differs in its last digits."""
    return statistics._replace(returns={**statistics.returns, "mean": statistics.returns["mean"] + 1e-12})


FAULTS = {
    "parameters": set_parameter,
    "exp_avg": set_exp_avg,
    "exp_avg_sq": set_exp_avg_sq,
    "step": set_step,
    "obs_rms_state": set_obs,
    "return_rms_state": set_returns,
    "learning_rate": set_rate,
}


def find_faults():
    """What differs is named, or not looked at."""
    seen["equal"] = complaint(lambda learner, statistics: None)
    seen["faults"] = {name: complaint(fault) for name, fault in FAULTS.items()}
    seen["unsynced"] = {name: complaint(fault, is_synced=False) for name, fault in FAULTS.items()}


def merge():
    """A round of unequal ranks."""
    ended = {"episodes": [1, 2][rank], "returns": [10.0, 50.0][rank], "length": [7, 8][rank], "terminations": rank}
    stats = [actor([0.0] * 4), actor([10.0] * 2)][rank], actor([4.0], **ended)
    metrics = {
        "buffer_size": [300.0, 100.0][rank],
        "train/gradient_steps": [8.0, 4.0][rank],
        "a": [1.0, 5.0][rank],
        "time/transfer_seconds": [float("nan"), 2.0][rank],
        "train/own_total": 1.0 + rank,
    }
    learner = make_learner()
    learner.metrics = (*learner.metrics, Metric(name="train/own_total", reduction="sum"))
    outcome = one_round(learner, empty, stats=stats, metrics=metrics, stop=[None, 15][rank])
    obs, returns = outcome.statistics
    seen["obs"] = [obs["count"], obs["mean"].tolist(), obs["var"].tolist()]
    seen["returns"] = returns["count"]
    seen["metrics"] = outcome.metrics
    seen["stop"] = outcome.stop_signal


def average():
    """Learners that have parted come together."""
    learner = make_learner(seed=rank)
    seen["apart"] = one_round(learner, empty, is_synced=False).metrics["sync/distinct_parameters"]
    before = learner.policy.flat.data.clone()
    learner.optimizer.exp_avg.fill_(float(rank))
    learner.optimizer.step.fill_(7.0 + rank)
    average_common(learner, group)
    both = torch.from_numpy(random_parameters(network, 0)), torch.from_numpy(random_parameters(network, 1))
    seen["average"] = float((learner.policy.flat.data - (both[0] + both[1]) / 2).abs().max())
    seen["moved"] = float((learner.policy.flat.data - before).abs().max())
    seen["moments"] = [float(learner.optimizer.exp_avg[0]), float(learner.optimizer.exp_avg_sq[0])]
    seen["step"] = float(learner.optimizer.step)
    seen["together"] = one_round(learner, empty).metrics["sync/distinct_parameters"]


with LearnerGroup(topology, timeout_seconds=60) as group:
    find_faults()
    merge()
    average()
finish()
