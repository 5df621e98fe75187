"""What single actions move in tasks whose answer is known; the planted faults are in test_check."""

import unittest
from pathlib import Path

from ddp_ppo.check.motion import check_small_actions, check_zero_actions
from ddp_ppo.check.trial import Report, Trial
from ddp_ppo.config.settings import Config
from ddp_ppo.training.plan import prepare


class MotionTest(unittest.TestCase):
    def report_of(self, stage, env_id, **settings):
        report = Report()
        stage(Trial(prepare(Config(env_id=env_id, **settings), environ={}), {}, Path()), report)
        self.assertEqual(report.faults, [])
        return report

    def test_each_action_of_half_cheetah_moves_the_joint_of_its_name(self):
        (rows,) = self.report_of(check_small_actions, "HalfCheetah-v5").tables.values()
        self.assertEqual([row["action"] for row in rows], ["bthigh", "bshin", "bfoot", "fthigh", "fshin", "ffoot"])
        for row in rows:
            self.assertRegex(row["moves most of all actions"], rf"^{row['action']}\.angle \+0\.\d+ rad")
            self.assertEqual(row["value"], "0.2")  # a tenth of -1 .. 1
        self.assertEqual(rows[0]["1 means"], "120 N m")

    def test_pushing_right_moves_the_cart_to_the_right(self):
        (rows,) = self.report_of(check_small_actions, "CartPole-v1").tables.values()
        self.assertIn("compared with", rows[0]["moves most of all actions"])
        self.assertRegex(rows[1]["moves most of all actions"], r"cart velocity \+\d")

    def test_a_pendulum_that_nobody_holds_falls(self):
        figures = self.report_of(check_zero_actions, "InvertedPendulum-v5").figures
        self.assertRegex(figures["episodes"], "^[1-9]")
        self.assertRegex(figures["reward"], "^0 .. 1")


if __name__ == "__main__":
    unittest.main()
