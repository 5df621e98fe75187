"""Settings that could never train are refused."""

import unittest

from ddp_ppo.learners.disco.settings import DiscoSettings


class SettingsTest(unittest.TestCase):
    def test_replay_that_never_holds_a_batch_is_refused(self):
        with self.assertRaisesRegex(ValueError, "replay_capacity 63 must be 0 or at least batch_size 64"):
            DiscoSettings(replay_capacity=63)
        DiscoSettings(replay_capacity=0)


if __name__ == "__main__":
    unittest.main()
