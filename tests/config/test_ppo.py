"""PPO's settings: their rules, and the arithmetic of mini-batches."""

import unittest

from ddp_ppo.config.ppo import PPOSettings
from tests.support.config_case import ConfigCase


class RulesTest(ConfigCase):
    def test_the_adaptive_schedule_needs_a_target(self):
        self.assert_refused("learning_rate_schedule: adaptive\n", "task.yaml:1: target_kl", "adaptive")
        self.load("learning_rate_schedule: adaptive\ntarget_kl: 0.01\n")

    def test_the_adaptive_schedule_needs_a_second_gradient_step(self):
        text = "learning_rate_schedule: adaptive\nppo: {target_kl: 0.01, num_epochs: 1, minibatch_size: 2048}\n"
        self.assert_refused(text, "task.yaml:1: learning_rate_schedule: adaptive steers by the KL of one gradient step")
        self.load(text.replace("2048", "2047"))

    def test_convolutions_are_torch_s(self):
        text = "conv_channels: [8]\nupdate_backend: numpy\n"
        self.assert_refused(text, "task.yaml:2: update_backend: numpy has no convolutions (conv_channels)")

    def test_its_rules_are_not_those_of_another_learner(self):
        self.assert_refused("learner: disco\nlearning_rate_schedule: adaptive\n", "adaptive follows PPO's KL")


class MinibatchTest(unittest.TestCase):
    def test_every_sample_is_in_one_mini_batch(self):
        for size, batches, last in ((64, 2, 36), (256, 1, 100), (100, 1, 100), (50, 2, 50), (1, 100, 1)):
            ppo = PPOSettings(minibatch_size=size)
            with self.subTest(size):
                self.assertEqual((ppo.minibatches_per_epoch(100), ppo.last_minibatch_size(100)), (batches, last))

    def test_mini_batches_that_do_not_fit_the_round_are_remarked_with_exact_sizes(self):
        def remark(size):
            return PPOSettings(minibatch_size=size).warnings(100)

        self.assertRegex(remark(64)[0], r"minibatch_size: 64 .*100.* 36$")
        self.assertRegex(remark(256)[0], r"minibatch_size: 256 .* one batch of 100$")
        self.assertEqual((remark(50), remark(100)), ([], []))


if __name__ == "__main__":
    unittest.main()
