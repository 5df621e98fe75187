"""DiscoRL's rows are what it reports."""

import unittest

from ddp_ppo.learners.disco.agent import AgentSpec
from ddp_ppo.learners.disco.learner import DiscoLearner
from ddp_ppo.learners.disco.metrics import DISCO_METRICS
from tests.support.disco_golden import SMALL_AGENT, disco_config, random_agent, random_meta, random_rollout
from tests.support.runs import OF_EVERY_LEARNER

SPEC = AgentSpec(4, 2, **SMALL_AGENT)


class RowsTest(unittest.TestCase):
    def test_a_train_step_reports_its_rows_and_those_of_every_learner(self):
        config = disco_config(disco={"batch_size": 4, "replay_capacity": 6})
        learner = DiscoLearner(config, random_agent(SPEC), meta=random_meta())
        rollout = random_rollout(DiscoLearner.rollout_fields(SPEC.acting_network), 5, 2, seed=0)
        _, reported = learner.train_step(rollout, round_index=0, done=0.0)
        self.assertEqual(reported.keys(), {row.name for row in DISCO_METRICS} | OF_EVERY_LEARNER)


if __name__ == "__main__":
    unittest.main()
