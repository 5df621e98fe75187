"""Two learners after a round: what they find where one of them differs, what they merge, what they average."""

import dataclasses

import numpy as np
import torch

from ddp_ppo.config.settings import Config
from ddp_ppo.distributed.group import LearnerGroup
from ddp_ppo.learners.ppo.learner import PPO, fresh
from ddp_ppo.learners.ppo.metrics import PPO_METRICS
from ddp_ppo.maths.moments import compute_batch_moments, empty_rms_state
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.protocols import EnvSpec, EpisodeEnd
from ddp_ppo.runs.metric_table import METRICS, Metric
from ddp_ppo.training.sync import ConsistencyError, Statistics, Sync
from tests.support.fixtures import random_parameters, report
from tests.support.programs.two_ranks import finish, rank, seen, topology

env = EnvSpec("A", 3, "box", 2, (-1.0, -1.0), (1.0, 1.0))
network = NetworkSpec.for_env(env, (8,), "tanh")
empty = Statistics(empty_rms_state(3), empty_rms_state(1))
TABLE = (*METRICS, *PPO_METRICS, Metric(name="train/own_total", reduction="sum"))
FEW = {"buffer_size": 1.0, "train/gradient_steps": 1.0}


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


def actor(values, block=0, returns=(), length=0, terminations=0):
    """What an actor of this block reports that has seen these values and ends of episodes with these returns."""
    return report(
        episodes=len(returns),
        episode_ends=[EpisodeEnd(block, step, 0) for step in range(len(returns))],
        episode_returns=list(returns),
        episode_len_sum=length,
        episode_terminations=terminations,
        obs_rms_moments={block: compute_batch_moments(np.tile(np.array(values, np.float64)[:, None], 3))},
    )


def sync_of(learner, interval=4, num_rounds=100):
    """Keeps this rank's learner together with the other's."""
    return Sync(group, learner, TABLE, interval=interval, num_rounds=num_rounds)


def one_round(sync, statistics, *, num_done=1, reports=None, metrics=FEW, stop=None):
    """What comes of a round."""
    reports = reports or [actor([0.0])]
    return sync.after_round(num_done, statistics, reports=reports, metrics=metrics, stop_signal=stop)


def complaint(break_it, is_drifting=False):
    """What is said where rank 1 has changed something; empty where nothing is."""
    learner, statistics = make_learner(), history()
    learner.is_drifting = is_drifting
    if rank == 1:
        statistics = break_it(learner, statistics) or statistics
    try:
        one_round(sync_of(learner), statistics)
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
    seen["unsynced"] = {name: complaint(fault, is_drifting=True) for name, fault in FAULTS.items()}


def merge():
    """A round of unequal ranks."""
    ended = {"returns": [[10.0], [20.0, 30.0]][rank], "length": [7, 8][rank], "terminations": rank}
    reports = [actor([0.0] * 4), actor([10.0] * 2)][rank], actor([4.0], 1, **ended)
    metrics = {
        "buffer_size": [300.0, 100.0][rank],
        "train/gradient_steps": [8.0, 4.0][rank],
        "a": [1.0, 5.0][rank],
        "time/transfer_seconds": [float("nan"), 2.0][rank],
        "train/own_total": 1.0 + rank,
        "train/epochs": [6.0, 4.0][rank],
    }
    outcome = one_round(sync_of(make_learner()), empty, reports=reports, metrics=metrics, stop=[None, 15][rank])
    obs, returns = outcome.statistics
    seen["obs"] = [obs["count"], obs["mean"].tolist(), obs["var"].tolist()]
    seen["returns"] = returns["count"]
    seen["metrics"] = outcome.metrics
    seen["stop"] = outcome.stop_signal


def average():
    """Learners that have parted agree on their mean, and come together when that is due."""
    learner = make_learner(seed=rank)
    sync = sync_of(learner)
    seen["apart"] = one_round(sync, empty).metrics["sync/distinct_parameters"]
    before = learner.policy.flat.data.clone()
    learner.optimizer.exp_avg.fill_(float(rank))
    learner.optimizer.step.fill_(7.0 + rank)
    mean = torch.from_numpy((random_parameters(network, 0) + random_parameters(network, 1)) / 2)
    parameters = torch.from_numpy(sync.agreed_parameters())
    seen["agreed"] = [largest(parameters - mean), largest(parameters - before)]
    if states := group.gather(learner.state_dict()):
        agreed = sync.agreed_state(states)
        difference = largest(torch.from_numpy(agreed["parameters"]) - mean)
        seen["state"] = [difference, float(agreed["exp_avg"][0]), float(agreed["step"])]
    seen["unmoved"] = bool(torch.equal(learner.policy.flat.data, before))
    seen["together"] = one_round(sync, empty, num_done=4).metrics["sync/distinct_parameters"]
    seen["average"] = largest(learner.policy.flat.data - mean)
    seen["moved"] = largest(learner.policy.flat.data - before)
    seen["moments"] = [float(learner.optimizer.exp_avg[0]), float(learner.optimizer.exp_avg_sq[0])]
    seen["step"] = float(learner.optimizer.step)


def largest(difference):
    """The largest entry."""
    return float(difference.abs().max())


def count_rounds():
    """Five rounds that are averaged after the third and the last one, and a sync that goes on from another one."""
    learner = make_learner()
    sync = sync_of(learner, interval=3, num_rounds=5)
    seen["rounds"] = [drift(sync, learner, num_done) for num_done in range(1, 6)]
    drift(sync, learner, 1)
    resumed = sync_of(learner)
    resumed.load_state_dict(sync.state_dict())
    seen["resumed"] = [resumed.is_apart, sync_of(learner).is_apart]


def drift(sync, learner, num_done):
    """A round in which rank 1's parameters move by one more than rank 0's; how many there are after it."""
    learner.policy.flat.data += float(rank)
    found = one_round(sync, empty, num_done=num_done).metrics["sync/distinct_parameters"]
    return [found, sync.is_apart]


def name_terms():
    """Rounds in which terms of the reward come and go, with the number of collectives that each of them took."""
    sync = sync_of(make_learner())
    seen["terms"] = []
    for terms in ({}, {"reward_b": 2.0}, {"reward_b": 4.0}, {"reward_a": 1.0} if rank else {}, {}):
        calls = group._num_calls
        reports = [dataclasses.replace(actor([0.0]), reward_terms=terms)]
        metrics = one_round(sync, empty, reports=reports).metrics
        found = {name: value for name, value in metrics.items() if name.startswith("reward/")}
        seen["terms"].append([found, group._num_calls - calls])
    resumed = sync_of(make_learner())
    resumed.load_state_dict(sync.state_dict())
    metrics = one_round(resumed, empty).metrics
    seen["terms_after_a_resume"] = {name: value for name, value in metrics.items() if name.startswith("reward/")}


with LearnerGroup(topology, timeout_seconds=60) as group:
    find_faults()
    merge()
    average()
    count_rounds()
    name_terms()
finish()
