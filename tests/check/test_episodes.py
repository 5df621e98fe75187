"""Verdicts on how episodes end and start, on flags and observations written by hand."""

import unittest

import numpy as np

from ddp_ppo.check.episodes import end_findings, episode_lengths, start_findings
from ddp_ppo.check.trial import Recording
from ddp_ppo.protocols import EnvSpec


def flags(*columns):
    """[T, K] of one text for each environment: "." a step, "T" terminated, "L" truncated."""
    return np.array([list(column) for column in columns]).T


def path_of(*columns):
    """A recording of which only the ends matter."""
    marks = flags(*columns)
    zeros = np.zeros((*marks.shape, 1), np.float32)
    return Recording(zeros[:1], zeros, zeros[..., 0].astype(float), marks == "T", marks == "L", {})


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

    def test_ends_in_every_first_step_are_a_fault_where_a_time_limit_says_that_there_should_be_more(self):
        words = "every episode ends in its first step"
        self.assertRegex(self.found("TTTT", "TTTT", limit=40).faults[0], f"{words}, of max_episode_steps 40")
        for limit in (None, 1):
            faults, notes = self.found("TTTT", "TTTT", limit=limit)
            self.assertEqual(faults, [])
            self.assertRegex(notes[0], f"{words}: right for a bandit")

    def test_an_end_that_survives_the_reset_is_a_fault(self):
        self.assertRegex(self.found("...TTTTT", "..TTTTTT").faults[0], "reset leaves something behind")

    def test_terminations_after_always_as_many_steps_are_a_note(self):
        note = self.found("...T...T", "...T...T", limit=50).notes[0]
        self.assertRegex(note, "terminated after 4 steps: if that is a time limit, return truncated")

    def test_truncations_after_varied_lengths_are_a_note(self):
        for limit in (None, 9):
            note = self.found("...L..L.", "..L.....", limit=limit).notes[0]
            self.assertRegex(note, "truncated after 3 .. 4 steps, which is no time limit")
        self.assertEqual(self.found("...L..T.", ".T...L..").notes, [])  # a limit of 4 steps


class StartTest(unittest.TestCase):
    """Two environments; texts hold their observations, a digit each."""

    def path(self, *columns, ends="....", reached=None):
        """Obs [T + 1, K, 1] of one text for each environment; reached [T, K, 1] where it is not the next obs."""
        obs = np.array([list(column) for column in columns]).T.astype(np.float32)[..., None]
        led = obs[1:] if reached is None else np.array([list(one) for one in reached]).T.astype(np.float32)[..., None]
        marks = flags(*[ends] * len(columns))
        return Recording(obs, led, led[..., 0].astype(float), marks == "T", marks == "L", {})

    def found(self, path, *, is_own_class=False):
        return start_findings(path, EnvSpec("Any-v0", 1, "discrete", 2), is_own_class=is_own_class)

    def test_ordinary_starts_are_nothing_to_speak_of(self):
        path = self.path("01230", "17801", ends="..T.", reached=("1293", "7850"))
        for is_own_class in (False, True):
            self.assertEqual(self.found(path, is_own_class=is_own_class), ([], []))

    def test_an_end_that_is_the_next_start_is_a_fault_of_a_class_of_ones_own(self):
        path = self.path("01234", "56789", ends="..T.")
        self.assertRegex(
            self.found(path, is_own_class=True).faults[0], "after every end obs and final_obs are the same"
        )
        self.assertEqual(self.found(path), ([], []))

    def test_a_task_that_ends_where_it_starts_is_a_note_at_most(self):
        faults, notes = self.found(self.path("01230", "04560", ends="...T"), is_own_class=True)
        self.assertEqual((faults, len(notes)), ([], 1))

    def test_episodes_that_all_start_as_the_first_one_are_a_fault(self):
        path = self.path("01023", "54567", ends=".T..", reached=("1923", "4967"))
        self.assertRegex(self.found(path).faults[0], "starts as its first one did, although those of others differ")
        same = self.path("01023", "04067", ends=".T..", reached=("1923", "4967"))
        self.assertEqual(self.found(same), ([], []))  # one start for all is a task's own

    def test_a_last_observation_that_looks_like_a_start_is_a_note(self):
        path = self.path("012012012", "034056078", ends="..T..T..", reached=("12012012", "34056078"))
        (note,) = self.found(path).notes
        self.assertRegex(note, "looks like a first one")
        often = self.path("000000000", "000300000", ends="..T..T..")  # where most observations do, chance explains it
        self.assertEqual(self.found(often).notes, [])

    def test_a_first_step_that_changes_nothing_is_a_note_unless_steps_often_do(self):
        late = ("00120013", "55670058")
        path = self.path(*late, ends="...T...", reached=("0129013", "5679058"))
        (note,) = self.found(path).notes
        self.assertRegex(note, "the first step of an episode changes no column")
        often = self.path("00000011", "55556666", ends="...T...", reached=("0000011", "5559666"))
        self.assertEqual(self.found(often).notes, [])

    def test_a_reward_that_fits_the_next_start_is_a_note_of_a_class_of_ones_own(self):
        generator, marks = np.random.default_rng(0), np.zeros((200, 2), bool)
        marks[19::20] = True
        reached = generator.uniform(2, 3, (200, 2, 1)).astype(np.float32)
        obs = np.concatenate([reached[:1], reached])
        obs[1:][marks] = generator.uniform(0, 1, (20, 1))
        reached[1:][~marks[1:]] = obs[2:][~marks[1:]]
        reached[5::20] = generator.uniform(0, 1, (10, 2, 1))
        right, wrong = reached[..., 0].astype(float), np.where(marks, obs[1:, :, 0], reached[..., 0]).astype(float)
        for reward, num_notes in ((right, 0), (wrong, 1), (np.ones((200, 2)), 0), (np.where(marks, 100.0, right), 0)):
            path = Recording(obs, reached, reward, np.zeros_like(marks), marks, {})
            self.assertEqual(len(self.found(path, is_own_class=True).notes), num_notes)
            self.assertEqual(self.found(path).notes, [])


if __name__ == "__main__":
    unittest.main()
