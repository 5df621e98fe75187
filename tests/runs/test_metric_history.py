"""What rules know of the rounds before: the usual, the beginning, the end, and what follows from a round's metrics."""

import math
import unittest

from ddp_ppo.runs.metric_history import EPISODE_STEPS, TRAINED, WORKING_SPEED, History

RETURN = "rollout/episode_return_mean"


def filled(values, name="x"):
    """A history with these values of one metric."""
    history = History()
    for value in values:
        history.add(history.look({name: value}))
    return history


class HistoryTest(unittest.TestCase):
    def test_the_usual_is_the_median_of_the_last_50_looks_once_there_are_20(self):
        self.assertTrue(math.isnan(filled(range(19)).usual("x")))
        self.assertEqual(filled(range(20)).usual("x"), 9.5)
        self.assertEqual(filled(range(100)).usual("x"), 74.5)  # 50 to 99

    def test_rounds_without_the_metric_do_not_count(self):
        history = filled([1.0, math.nan, 3.0, math.nan])
        self.assertEqual((history.last("x", 5), history.total("x"), history.start("x")), ([1.0, 3.0], 4.0, 1.0))
        self.assertEqual(history.extremes("x"), (1.0, 3.0))

    def test_halves_are_of_the_last_looks_and_ends_of_the_run(self):
        self.assertEqual(filled(range(100)).halves("x"), (62.0, 87.0))  # 50-74, 75-99
        self.assertEqual(filled(range(100)).ends("x"), (9.5, 89.5))  # 0-19, 80-99
        self.assertEqual(filled(range(24)).ends("x"), (2.5, 20.5))  # 0-5, 18-23
        self.assertTrue(all(math.isnan(value) for value in filled(range(19)).ends("x")))

    def test_an_evaluation_is_looked_at_with_the_last_five_training_returns(self):
        history = filled(range(10), RETURN)
        self.assertEqual(history.look({"eval/return_mean": 1.0})[TRAINED], 7.0)
        self.assertTrue(math.isnan(history.look({})[TRAINED]))

    def test_the_speed_leaves_out_evaluation_and_files(self):
        row = {"time/steps_per_second": 1000.0, "time/round_seconds": 2.0, "time/record_seconds": 1.5}
        self.assertEqual(History().look(row)[WORKING_SPEED], 4000.0)  # 2,000 steps in 0.5 s

    def test_steps_of_episodes_are_their_number_times_their_length(self):
        row = {"rollout/episodes": 3.0, "rollout/episode_length_mean": 7.0}
        self.assertEqual(History().look(row)[EPISODE_STEPS], 21.0)
        self.assertTrue(math.isnan(History().look({"rollout/episodes": 0.0})[EPISODE_STEPS]))


if __name__ == "__main__":
    unittest.main()
