"""DiscoRL's rows are what it reports."""

import unittest

from ddp_ppo.learners.disco.metrics import DISCO_METRICS
from tests.learners.disco.test_learner import make_learner, rollouts, train
from tests.learners.ppo.test_metrics import OF_EVERY_LEARNER


class RowsTest(unittest.TestCase):
    def test_a_train_step_reports_its_rows_and_those_of_every_learner(self):
        reported = train(make_learner(), rollouts(1))[0].keys()
        self.assertEqual(reported, {row.name for row in DISCO_METRICS} | OF_EVERY_LEARNER)


if __name__ == "__main__":
    unittest.main()
