"""Episode lengths and the verdicts on how episodes end, on flags written by hand."""

import unittest
from pathlib import Path

import numpy as np

from ddp_ppo.check_motion import check_small_actions, check_zero_actions, end_findings, episode_lengths
from ddp_ppo.check_trial import Report, Trajectory, Trial
from ddp_ppo.config import Config
from ddp_ppo.plan import prepare
from ddp_ppo.protocols import EnvSpec


def flags(*columns):
    """[T, K] of one text for each environment: "." a step, "T" terminated, "L" truncated."""
    return np.array([list(column) for column in columns]).T


def path_of(*columns):
    """A trajectory of which only the ends matter."""
    marks = flags(*columns)
    zeros = np.zeros((*marks.shape, 1), np.float32)
    return Trajectory(zeros[:1], zeros, zeros[..., 0].astype(float), marks == "T", marks == "L", {})


class EpisodeLengthTest(unittest.TestCase):
    def test_lengths_are_counted_from_end_to_end(self):
        marks = flags("..T.T...", "T......T")
        self.assertEqual(episode_lengths(marks != "."), [3, 2, 1, 7])

    def test_an_open_episode_does_not_count(self):
        self.assertEqual(episode_lengths(flags("....") != "."), [])


class EndTest(unittest.TestCase):
    def found(self, *columns, limit=None):
        spec = EnvSpec("Any-v0", 1, "discrete", 2, max_episode_steps=limit)
        return end_findings(path_of(*columns), spec)

    def test_ordinary_ends_are_nothing_to_speak_of(self):
        for columns, limit in (
            (("..T..T.T", "...T...T"), None),
            (("...L...L", "...L...L"), 4),
            (("........", "........"), 9),
            (("...T....", "........"), 9),
        ):
            with self.subTest(columns):
                self.assertEqual(self.found(*columns, limit=limit), ([], []))

    def test_an_episode_beyond_the_limit_is_a_fault(self):
        self.assertRegex(self.found("........", "...L...L", limit=4).faults[0], "is 4, but an episode went on after 4")

    def test_no_end_and_no_limit_is_a_note_first_and_a_fault_after_2000_steps(self):
        self.assertRegex(self.found("........").notes[0], "within 8 steps and there is no time limit")
        self.assertRegex(self.found("." * 2000).faults[0], "within 2000 steps and there is no time limit")

    def test_ends_in_every_first_step_are_a_fault(self):
        self.assertRegex(self.found("TTTT", "TTTT").faults[0], "every episode ends in its first step")

    def test_an_end_that_survives_the_reset_is_a_fault(self):
        self.assertRegex(self.found("...TTTTT", "..TTTTTT").faults[0], "reset leaves something behind")

    def test_terminations_after_always_as_many_steps_are_a_note(self):
        note = self.found("...T...T", "...T...T", limit=50).notes[0]
        self.assertRegex(note, "terminated after 4 steps: if that is a time limit, return truncated")


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
