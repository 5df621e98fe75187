"""PPO's rows are what it reports."""

import unittest

from ddp_ppo.config.settings import Config
from ddp_ppo.learners.ppo.metrics import PPO_METRICS
from ddp_ppo.runs.metric_table import METRICS
from tests.learners.ppo.test_learner import learner, rollout_of, train

OF_EVERY_LEARNER = {"buffer_size", "train/gradient_steps", "time/transfer_seconds"}


class RowsTest(unittest.TestCase):
    def test_a_train_step_reports_its_rows_and_those_of_every_learner(self):
        ppo = learner(Config(num_epochs=1))
        reported = train(ppo, rollout_of(ppo)).keys()
        self.assertEqual(reported, {row.name for row in PPO_METRICS} | OF_EVERY_LEARNER)
        self.assertLessEqual(OF_EVERY_LEARNER, {row.name for row in METRICS})


if __name__ == "__main__":
    unittest.main()
