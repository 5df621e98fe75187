"""DiscoRL's settings: what could never train is refused."""

import unittest

from ddp_ppo.config.disco import DiscoSettings
from ddp_ppo.config.settings import GENERAL
from tests.support.config_case import ConfigCase

HEAD = "learner: disco\nlearning_rate_schedule: constant\n"


class RulesTest(ConfigCase):
    def test_a_replay_that_never_holds_a_batch_is_refused(self):
        said = "task.yaml:4: disco.replay_capacity: 63 never holds disco.batch_size: 64"
        self.assert_refused(f"{HEAD}disco:\n  replay_capacity: 63\n", said)
        for capacity in (0, 64):
            self.assertEqual(self.load(f"{HEAD}disco: {{replay_capacity: {capacity}}}\n").disco.batch_size, 64)

    def test_it_needs_a_layer_and_a_schedule_that_follows_no_kl(self):
        self.assert_refused(f"{HEAD}hidden_sizes: []\n", "hidden_sizes: learner: disco needs at least one layer")
        self.assert_refused("learner: disco\nlearning_rate_schedule: adaptive\n", "learning_rate_schedule: adaptive")

    def test_what_it_does_not_read_are_general_settings(self):
        self.assertLessEqual({*DiscoSettings.unread}, {*GENERAL})


if __name__ == "__main__":
    unittest.main()
