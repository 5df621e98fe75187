"""Rewards and columns written by hand: what is said of them, and of which nothing is."""

import unittest

import numpy as np

from ddp_ppo.check.random import column_findings, reward_findings
from ddp_ppo.check.trial import Recording
from ddp_ppo.protocols import Column


def path_of(obs=((0.0,), (1.0,)), reward=(1.0, 2.0), *, terminated=False, terms=None):
    """A recording of one environment: observations [T, D] without a reset, rewards [T]."""
    seen, paid = np.array(obs, np.float32)[:, None], np.array(reward, float)[:, None]
    ended = np.zeros(paid.shape, bool)
    ended[-1] = terminated
    named = {name: np.array(values, float)[:, None] for name, values in (terms or {}).items()}
    return Recording(seen[:1], seen, paid, ended, np.zeros_like(ended), named)


class RewardTest(unittest.TestCase):
    def notes(self, *reward, is_normalized=True, **more):
        faults, notes = reward_findings(path_of(reward=reward, **more), is_normalized=is_normalized)
        self.assertEqual(faults, [])
        return notes

    def test_no_reward_at_all_is_a_fault(self):
        self.assertRegex(reward_findings(path_of(reward=(0, 0)), is_normalized=True).faults[0], "every reward of 2")

    def test_the_same_reward_in_every_step_is_a_note_unless_an_end_may_come_early_or_is_the_goal(self):
        self.assertRegex(self.notes(1, 1, 1)[0], "every reward is 1 and nothing terminates")
        self.assertEqual(self.notes(1, 1, 1, terminated=True), [])  # CartPole
        self.assertEqual(self.notes(-1, -1, -1), [])  # MountainCar

    def test_large_rewards_are_to_be_normalised_and_outliers_to_be_avoided(self):
        self.assertEqual(self.notes(-300, -200), [])
        self.assertRegex(self.notes(-300, -200, is_normalized=False)[0], "up to 300 and normalize_reward: false")
        for is_normalized in (False, True):
            (note,) = self.notes(-0.5, 0.5, 0.5, -1e6, is_normalized=is_normalized)
            self.assertRegex(note, r"size 1e\+06 among usual ones of 0.5 hides them")
        self.assertEqual(self.notes(-0.1, 0, 0, -0.2, 100), [])  # MountainCarContinuous's goal

    def test_small_rewards_are_to_be_normalised(self):  # N-26
        self.assertRegex(self.notes(1e-4, 0, -2e-4, is_normalized=False)[0], "no reward above 0.0002 and normalize_rew")
        self.assertEqual(self.notes(1e-4, 0, -2e-4), [])
        self.assertEqual(self.notes(1e-4, 0, 0.01, is_normalized=False), [])

    def test_terms_that_do_not_add_up_are_a_note(self):
        terms = {"reward_near": (1, 2), "reward_effort": (-0.5, -1)}
        self.assertEqual(self.notes(0.5, 1, terms=terms), [])
        self.assertEqual(self.notes(1.5, 2, terms=terms), [])  # another one that stays, HumanoidStandup's
        self.assertRegex(self.notes(0.5, 3.5, terms=terms)[0], "the 2 terms .* do not add up .* up to 2.5 is missing")
        self.assertEqual(self.notes(0.5, 3.5, terms={"reward_near": (1, 2)}), [])  # one alone is a part


class ColumnTest(unittest.TestCase):
    def found(self, *obs):
        columns = tuple(Column(f"c{index}") for index in range(len(obs[0])))
        return column_findings(path_of(obs), columns)

    def test_columns_that_never_change_are_named_and_all_of_them_are_a_bandit_s(self):  # S-3
        self.assertEqual(self.found((0, 1), (1, 2)), ([], []))
        self.assertEqual(self.found((0, 7), (1, 7)).notes, ["1 of 2 columns never change: c1 = 7"])
        text = "the observation never changes: right for a bandit, else nothing tells states apart"
        self.assertEqual(self.found((0, 7), (0, 7)), ([], [text]))

    def test_changes_that_float32_can_hardly_hold_are_a_note(self):
        (note,) = self.found((0, 1e6), (1, 1e6 + 0.5)).notes
        self.assertRegex(note, "float32 can hardly hold .*: c1 1000000 .. 1000000.5")
        self.assertEqual(self.found((0, 1e6), (1, 1e6 + 50)).notes, [])
        self.assertEqual(self.found((0, 0.25), (1, 0.25 + 2**-23)).notes, [])  # a body that lies still


if __name__ == "__main__":
    unittest.main()
