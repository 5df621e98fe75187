"""What a gradient step reads of a configuration."""

import unittest

from ddp_ppo.config.settings import Config
from ddp_ppo.learners.ppo.loss_settings import LossSettings, loss_settings

VALUES = {
    "clip_range": 0.11,
    "value_clip_range": 0.22,
    "entropy_coef": 0.033,
    "value_coef": 0.44,
    "max_grad_norm": 0.55,
    "adam_eps": 6e-6,
}


class LossSettingsTest(unittest.TestCase):
    def test_each_is_the_setting_of_its_name(self):
        self.assertEqual(vars(loss_settings(Config(**VALUES))), VALUES)

    def test_a_clip_may_be_off(self):
        found = loss_settings(Config(value_clip_range=None, max_grad_norm=None))
        self.assertIsInstance(found, LossSettings)
        self.assertEqual((found.value_clip_range, found.max_grad_norm), (None, None))


if __name__ == "__main__":
    unittest.main()
