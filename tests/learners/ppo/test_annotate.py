"""What an actor adds to its rollout: values, log-probabilities, advantages and targets."""

import unittest

import numpy as np

from ddp_ppo.learners.ppo.annotate import annotate_ppo
from ddp_ppo.learners.ppo.learner import PPO
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.policies.numpy_policy import NumpyPolicy
from ddp_ppo.protocols import EnvSpec
from ddp_ppo.sampling.rollout import Discounting, rollout_shapes
from tests.support.fixtures import linear_critic

NAN = float("nan")


def annotated(rewards, obs, *, term=(), trunc=(), final_obs=None, discounting=None):
    """Columns of one environment under V(s) = s[0] and two equally likely choices; `obs` has one row more."""
    network = NetworkSpec(1, "categorical", 2, (), "tanh")
    policy = NumpyPolicy(network, EnvSpec("A", 1, "discrete", 2), 1, len(rewards))
    policy.load(linear_critic(network), None)
    shapes = rollout_shapes(PPO.rollout_fields(network), len(rewards), 1)
    columns = {name: np.full(shape, 77, dtype) for name, (dtype, shape) in shapes.items()}
    columns["act"][:] = 1
    columns["obs"][:, 0, 0] = obs
    columns["reward"][:, 0] = rewards
    columns["final_obs"][:] = NAN
    for t in range(len(rewards)):
        columns["terminated"][t], columns["truncated"][t] = t in term, t in trunc
    for t, value in (final_obs or {}).items():
        columns["final_obs"][t] = value
    policy.outputs[:] = 0.0
    annotate_ppo(policy, columns, discounting or Discounting(0.9, 0.8, 1.0, np.inf))
    return {name: array[:, 0] for name, array in columns.items()}


class AnnotateTest(unittest.TestCase):
    def test_truncated_step_bootstraps_with_the_final_observation(self):  # O-02
        columns = annotated([1] * 4, [0.5] * 5, trunc=[1], final_obs={1: 2.0})
        np.testing.assert_allclose(columns["adv"], [2.606, 2.3, 1.634, 0.95], rtol=1e-6)
        np.testing.assert_allclose(columns["ret"], [3.106, 2.8, 2.134, 1.45], rtol=1e-6)
        np.testing.assert_array_equal(columns["final_value"], [0, 2, 0, 0])

    def test_terminated_wins_over_truncated(self):  # O-03
        columns = annotated([1] * 4, [0.5] * 5, term=[1], trunc=[1], final_obs={1: 2.0})
        np.testing.assert_allclose(columns["adv"], [1.31, 0.5, 1.634, 0.95], rtol=1e-6)

    def test_truncation_at_the_last_step_reads_the_final_not_the_reset_observation(self):  # O-04
        discounting = Discounting(0.5, 1.0, 1.0, np.inf)
        columns = annotated([1, 1], [0, 0, 100], trunc=[1], final_obs={1: 2.0}, discounting=discounting)
        np.testing.assert_allclose(columns["adv"], [2, 2], rtol=1e-6)

    def test_last_row_of_value_belongs_to_the_observation_behind_the_rollout(self):  # O-05
        columns = annotated([1, 1], [0, 0, 10], discounting=Discounting(0.5, 1.0, 1.0, np.inf))
        np.testing.assert_array_equal(columns["value"], [0, 0, 10])
        np.testing.assert_allclose(columns["adv"], [4, 6], rtol=1e-6)

    def test_log_probabilities_are_those_of_the_outputs_while_acting(self):
        np.testing.assert_allclose(annotated([1, 1], [0, 0, 0])["logp"], [-0.693147] * 2, rtol=1e-6)

    def test_scaled_and_clipped_rewards_shape_the_targets_and_raw_ones_stay(self):
        discounting = Discounting(1.0, 1.0, 0.5, 10.0)
        columns = annotated([4, -1000, 1000], [0, 0, 0, 0], discounting=discounting)
        np.testing.assert_array_equal(columns["reward"], [4, -1000, 1000])
        np.testing.assert_allclose(columns["ret"], [2, 0, 10], atol=1e-6)

    def test_inputs_are_left_as_they_were(self):
        columns = annotated([1, 2, 3], [1, 2, 3, 4], term=[0], trunc=[2], final_obs={2: 5.0})
        np.testing.assert_array_equal(columns["obs"][:, 0], [1, 2, 3, 4])
        np.testing.assert_array_equal(columns["act"], [1, 1, 1])
        np.testing.assert_array_equal(columns["terminated"], [True, False, False])
        np.testing.assert_array_equal(columns["truncated"], [False, False, True])


if __name__ == "__main__":
    unittest.main()
