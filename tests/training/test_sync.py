"""What learners agree on after a round: merged moments and metrics, and that they are equal; two real processes."""

import math
import unittest

from ddp_ppo.training.sync import reward_metrics, term_names
from tests.distributed.test_group import run_two
from tests.support.fixtures import report

# Runs after test_distributed.HEAD, on both ranks.
SCRIPT = """
import dataclasses
from ddp_ppo.config.settings import Config
from ddp_ppo.maths.moments import compute_batch_moments, empty_rms_state
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.learners.ppo.learner import PPO, fresh
from ddp_ppo.protocols import EnvSpec
from ddp_ppo.learners.ppo.metrics import PPO_METRICS
from ddp_ppo.runs.metric_table import METRICS, Metric
from ddp_ppo.training.sync import ConsistencyError, Statistics, Sync
from tests.support.fixtures import random_parameters, report

env = EnvSpec("A", 3, "box", 2, (-1.0, -1.0), (1.0, 1.0))
network = NetworkSpec.for_env(env, (8,), "tanh")

def make_learner(seed=0):
    learner = PPO(Config(), network, fresh(random_parameters(network, seed)), device=torch.device("cpu"))
    learner.optimizer.exp_avg.fill_(0.1)
    learner.optimizer.exp_avg_sq.fill_(0.2)
    learner.optimizer.step.fill_(7.0)
    return learner

def history():
    obs = compute_batch_moments(np.arange(12.0).reshape(4, 3))
    return Statistics(obs, compute_batch_moments(np.arange(4.0).reshape(4, 1)))

def actor(values, episodes=0, returns=0.0, length=0, terminations=0):
    return report(
        episodes=episodes, episode_return_sum=returns, episode_len_sum=length, episode_terminations=terminations,
        obs_rms_moments=compute_batch_moments(np.tile(np.array(values, np.float64)[:, None], 3)),
    )

TABLE = (*METRICS, *PPO_METRICS, Metric(name="train/own_total", reduction="sum"))
FEW = {"buffer_size": 1.0, "train/gradient_steps": 1.0}

def sync_of(learner, interval=4, num_rounds=100):
    return Sync(learners, learner, TABLE, interval=interval, num_rounds=num_rounds)

def one_round(sync, statistics, *, num_done=1, reports=None, metrics=FEW, stop=None):
    reports = reports or [actor([0.0])]
    return sync.after_round(num_done, statistics, reports=reports, metrics=metrics, stop_signal=stop)

def complaint(break_it, is_drifting=False):
    learner, statistics = make_learner(), history()
    learner.is_drifting = is_drifting
    if rank == 1:
        statistics = break_it(learner, statistics) or statistics
    try:
        one_round(sync_of(learner), statistics)
    except ConsistencyError as error:
        return str(error)
    return ""

# A round in which this learner's parameters move by one more than rank 0's; whether learners differ after it.
def drift(sync, learner, num_done):
    learner.policy.flat.data += float(rank)
    found = one_round(sync, empty, num_done=num_done).metrics["sync/distinct_parameters"]
    return [found, sync.is_apart]

def named(**terms):
    return [actor([0.0])] if not terms else [dataclasses.replace(actor([0.0]), reward_terms=terms)]

def set_parameter(learner, statistics):
    flat = learner.policy.flat.data.numpy()
    flat[5] = np.nextafter(flat[5], np.float32(9))  # a single bit

def set_exp_avg(learner, statistics): learner.optimizer.exp_avg[0] = 0.5
def set_exp_avg_sq(learner, statistics): learner.optimizer.exp_avg_sq[3] = 0.5
def set_step(learner, statistics): learner.optimizer.step.fill_(8.0)
def set_rate(learner, statistics): learner.learning_rate *= 0.5

def set_obs(learner, statistics):
    return statistics._replace(obs={**statistics.obs, "count": statistics.obs["count"] + 1.0})

def set_returns(learner, statistics):
    return statistics._replace(returns={**statistics.returns, "mean": statistics.returns["mean"] + 1e-12})

FAULTS = {
    "parameters": set_parameter, "exp_avg": set_exp_avg, "exp_avg_sq": set_exp_avg_sq, "step": set_step,
    "obs_rms_state": set_obs, "return_rms_state": set_returns, "learning_rate": set_rate,
}

with LearnerGroup(topology, timeout_seconds=60) as learners:
    seen["equal"] = complaint(lambda learner, statistics: None)
    seen["faults"] = {name: complaint(fault) for name, fault in FAULTS.items()}
    seen["unsynced"] = {name: complaint(fault, is_drifting=True) for name, fault in FAULTS.items()}

    ended = {"episodes": [1, 2][rank], "returns": [10.0, 50.0][rank], "length": [7, 8][rank], "terminations": rank}
    stats = [actor([0.0] * 4), actor([10.0] * 2)][rank], actor([4.0], **ended)
    metrics = {
        "buffer_size": [300.0, 100.0][rank], "train/gradient_steps": [8.0, 4.0][rank],
        "a": [1.0, 5.0][rank], "time/transfer_seconds": [float("nan"), 2.0][rank],
        "train/epochs": [6.0, 4.0][rank], "train/own_total": 1.0 + rank,
    }
    empty = Statistics(empty_rms_state(3), empty_rms_state(1))
    outcome = one_round(sync_of(make_learner()), empty, reports=stats, metrics=metrics, stop=[None, 15][rank])
    obs, returns = outcome.statistics
    seen["obs"] = [obs["count"], obs["mean"].tolist(), obs["var"].tolist()]
    seen["returns"] = returns["count"]
    seen["metrics"] = outcome.metrics
    seen["stop"] = outcome.stop_signal

    learner = make_learner(seed=rank)
    sync = sync_of(learner)
    seen["apart"] = one_round(sync, empty).metrics["sync/distinct_parameters"]
    before = learner.policy.flat.data.clone()
    learner.optimizer.exp_avg.fill_(float(rank))
    learner.optimizer.step.fill_(7.0 + rank)
    both = torch.from_numpy(random_parameters(network, 0)), torch.from_numpy(random_parameters(network, 1))
    mean = (both[0] + both[1]) / 2
    seen["agreed"] = [float((torch.from_numpy(sync.agreed_parameters()) - each).abs().max()) for each in (mean, before)]
    states = learners.gather(learner.state_dict())
    agreed = sync.agreed_state(states) if states else None
    if agreed:
        largest = float((torch.from_numpy(agreed["parameters"]) - mean).abs().max())
        seen["state"] = [largest, float(agreed["exp_avg"][0]), float(agreed["step"])]
    seen["unmoved"] = bool(torch.equal(learner.policy.flat.data, before))
    seen["together"] = one_round(sync, empty, num_done=4).metrics["sync/distinct_parameters"]
    seen["average"] = float((learner.policy.flat.data - mean).abs().max())
    seen["moved"] = float((learner.policy.flat.data - before).abs().max())
    seen["moments"] = [float(learner.optimizer.exp_avg[0]), float(learner.optimizer.exp_avg_sq[0])]
    seen["step"] = float(learner.optimizer.step)

    learner = make_learner()
    sync = sync_of(learner, interval=3, num_rounds=5)
    seen["rounds"] = [drift(sync, learner, num_done) for num_done in range(1, 6)]
    drift(sync, learner, 1)
    resumed = sync_of(learner)
    resumed.load_state_dict(sync.state_dict())
    seen["resumed"] = [resumed.is_apart, sync_of(learner).is_apart]

    sync = sync_of(make_learner())
    rounds = [{}, {"reward_b": 2.0}, {"reward_b": 4.0}, {"reward_a": 1.0} if rank else {}, {}]
    seen["terms"] = []
    for terms in rounds:
        calls = learners._num_calls
        metrics = one_round(sync, empty, reports=named(**terms)).metrics
        found = {name: value for name, value in metrics.items() if name.startswith("reward/")}
        seen["terms"].append([found, learners._num_calls - calls])
finish()
"""


class TwoLearnersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ranks = run_two(SCRIPT)

    def both(self, name):
        """What the ranks saw, which must be the same."""
        self.assertEqual(self.ranks[0][name], self.ranks[1][name])
        return self.ranks[0][name]

    def test_equal_learners_find_no_difference(self):
        self.assertEqual(self.both("equal"), "")

    def test_a_single_bit_that_differs_is_named_with_tensor_and_rank_on_every_rank(self):  # O-35
        for name, message in self.both("faults").items():
            with self.subTest(name):
                self.assertRegex(message, rf"\b{name}\b.*\brank 1\b")

    def test_between_syncs_only_what_has_to_be_equal_is_compared(self):  # C12
        told = {name for name, message in self.both("unsynced").items() if message}
        self.assertEqual(told, {"obs_rms_state", "return_rms_state", "learning_rate"})

    def test_moments_of_all_actors_and_learners_are_merged(self):  # O-26
        # 0,0,0,0,4 on rank 0 and 10,10,4 on rank 1
        count, mean, var = self.both("obs")
        self.assertEqual(count, 8)
        for column in range(3):
            self.assertAlmostEqual(mean[column], 3.5, places=9)
            self.assertAlmostEqual(var[column], 16.75, places=9)
        self.assertEqual(self.both("returns"), 0)

    def test_metrics_are_weighted_by_samples_and_totals_are_summed(self):  # C13
        metrics = self.both("metrics")
        self.assertEqual(metrics["a"], 2.0)  # (300 * 1 + 100 * 5) / 400
        self.assertEqual(metrics["time/transfer_seconds"], 2.0)
        self.assertEqual((metrics["buffer_size"], metrics["train/gradient_steps"]), (400.0, 12.0))
        self.assertEqual(metrics["train/own_total"], 3.0)  # a row of the learner says so
        self.assertEqual(metrics["rollout/episodes"], 3.0)
        self.assertEqual(metrics["rollout/episode_return_mean"], 20.0)
        self.assertEqual(metrics["rollout/episode_length_mean"], 5.0)
        self.assertAlmostEqual(metrics["rollout/terminated_fraction"], 1 / 3)

    def test_each_learner_s_own_number_of_epochs_shows(self):  # C14
        metrics = self.both("metrics")
        self.assertEqual(metrics["train/epochs"], 5.5)  # (300 * 6 + 100 * 4) / 400
        self.assertEqual((metrics["train/epochs_min"], metrics["train/epochs_max"]), (4.0, 6.0))

    def test_a_stop_of_one_rank_is_a_stop_of_all(self):  # C14
        self.assertEqual(self.both("stop"), 15)

    def test_between_syncs_learners_agree_on_their_mean_and_go_on_as_they_are(self):  # C12
        self.assertEqual([rank["unmoved"] for rank in self.ranks], [True, True])
        to_mean, to_own = self.ranks[0]["agreed"]
        self.assertLess(to_mean, 1e-7)
        self.assertGreater(to_own, 1e-3)
        self.assertEqual(self.ranks[1]["agreed"][1], 0.0)  # rank 0 alone needs it
        largest, exp_avg, step = self.ranks[0]["state"]
        self.assertLess(largest, 1e-7)
        self.assertEqual((exp_avg, step), (0.5, 8.0))  # 7.5, rounded to the even neighbour
        self.assertNotIn("state", self.ranks[1])

    def test_learners_are_averaged_after_every_interval_and_after_the_last_round(self):  # C12
        apart, together = [2.0, True], [1.0, False]
        self.assertEqual(self.both("rounds"), [apart, apart, together, apart, together])

    def test_a_resumed_run_knows_whether_learners_differ(self):
        self.assertEqual(self.both("resumed"), [True, False])

    def test_a_term_of_the_reward_is_known_in_the_round_in_which_any_rank_first_meets_it(self):
        nan = math.nan
        found = [terms for terms, _ in self.ranks[0]["terms"]]
        expected = [{}, {"reward/b": 2.0}, {"reward/b": 4.0}, {"reward/a": 1.0, "reward/b": nan}]
        expected.append({"reward/a": nan, "reward/b": nan})
        self.assertEqual(repr(found), repr(expected))
        self.assertEqual(repr(self.ranks[0]["terms"]), repr(self.ranks[1]["terms"]))

    def test_names_are_told_only_in_rounds_that_bring_new_ones(self):
        # One message; with new names a second one, after these were gathered and shared.
        for rank in self.ranks:
            self.assertEqual([calls for _, calls in rank["terms"]], [1, 4, 1, 4, 1])

    def test_parameters_and_moments_become_the_mean(self):  # C12
        self.assertEqual(self.both("apart"), 2.0)
        self.assertLess(self.both("average"), 1e-7)
        self.assertGreater(self.both("moved"), 1e-3)
        self.assertEqual(self.both("moments")[0], 0.5)
        self.assertAlmostEqual(self.both("moments")[1], 0.2, places=6)
        self.assertEqual(self.both("step"), 8.0)  # 7.5, rounded to the even neighbour
        self.assertEqual(self.both("together"), 1.0)


class RewardMetricsTest(unittest.TestCase):
    REPORTS = (
        report(reward_terms={"reward_ctrl": -1.0, "reward_forward": 2.0}),
        report(reward_terms={"reward_ctrl": -3.0}),
    )

    def test_the_names_are_those_of_any_actor_in_alphabetical_order(self):
        self.assertEqual(term_names(self.REPORTS), ["reward_ctrl", "reward_forward"])
        self.assertEqual(term_names([report()]), [])

    def test_a_term_is_the_mean_of_the_actors_that_report_it(self):
        found = reward_metrics(self.REPORTS, ["reward_ctrl", "reward_forward"])
        self.assertEqual(found, {"reward/ctrl": -2.0, "reward/forward": 2.0})

    def test_what_nobody_reports_or_is_not_finite_is_nothing_to_report(self):
        terms = [{"reward_a": math.inf, "reward_b": 1.0}, {"reward_b": math.nan}]
        found = reward_metrics([report(reward_terms=each) for each in terms], ["reward_a", "reward_b", "reward_c"])
        self.assertEqual(found["reward/b"], 1.0)
        self.assertTrue(math.isnan(found["reward/a"]) and math.isnan(found["reward/c"]))


if __name__ == "__main__":
    unittest.main()
