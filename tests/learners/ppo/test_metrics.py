"""PPO's rows are what it reports."""

import unittest

import torch

from ddp_ppo.config.settings import Config
from ddp_ppo.learners.ppo.learner import PPO, fresh
from ddp_ppo.learners.ppo.metrics import PPO_METRICS
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.policies.numpy_policy import NumpyPolicy
from ddp_ppo.protocols import EnvSpec
from ddp_ppo.runs.metric_table import METRICS
from tests.support.fixtures import random_parameters, sampled_rollout
from tests.support.runs import OF_EVERY_LEARNER

ENV = EnvSpec("A", 5, "box", 3, (-1.0,) * 3, (1.0,) * 3)
NETWORK = NetworkSpec.for_env(ENV, (8,), "tanh")


class RowsTest(unittest.TestCase):
    def test_a_train_step_reports_its_rows_and_those_of_every_learner(self):
        parameters = random_parameters(NETWORK)
        ppo = PPO(Config(num_epochs=1), NETWORK, fresh(parameters.copy()), device=torch.device("cpu"))
        policy = NumpyPolicy(NETWORK, ENV, 4, 8)
        policy.load(parameters, None)
        rollout = sampled_rollout(policy, PPO.rollout_fields(NETWORK), 8, 4)
        _, reported = ppo.train_step(rollout, round_index=0, done=0.0)
        self.assertEqual(reported.keys(), {row.name for row in PPO_METRICS} | OF_EVERY_LEARNER)
        self.assertLessEqual(OF_EVERY_LEARNER, {row.name for row in METRICS})


if __name__ == "__main__":
    unittest.main()
