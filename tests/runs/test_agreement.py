"""What all learners of a checkpoint agree on, their average where they differ; values by hand."""

import unittest

import numpy as np

from ddp_ppo.runs.agreement import agreed_learner, average_states, with_agreement


def state(value, step=1.0):
    """A learner's state in which every array holds one value."""
    array = np.full(2, value, np.float32)
    return {"parameters": array, "exp_avg": 2 * array, "exp_avg_sq": 3 * array, "step": step, "learning_rate": 0.1}


def content(*states, **more):
    return {"ranks": [{"learner": one, "actors": []} for one in states], **more}


class AverageTest(unittest.TestCase):
    def test_what_is_averaged_is_the_mean_and_what_is_counted_a_whole_number(self):
        states = [state(1.0, 3.0), state(2.0, 5.0), state(6.0, 6.0)]
        found = average_states(states, averaged=["parameters", "exp_avg"], counted=["step"])
        np.testing.assert_array_equal(found["parameters"], [3.0, 3.0])
        np.testing.assert_array_equal(found["exp_avg"], [6.0, 6.0])
        self.assertEqual(found["step"], 5.0)  # 14 / 3
        self.assertEqual(found["parameters"].dtype, np.float32)

    def test_what_is_not_named_is_the_first_learner_s(self):
        found = average_states([state(1.0), state(2.0)], averaged=["parameters"], counted=[])
        np.testing.assert_array_equal(found["exp_avg"], [2.0, 2.0])
        self.assertEqual(found["learning_rate"], 0.1)

    def test_the_mean_of_equal_values_is_that_value_to_the_last_bit(self):
        value = np.float32(0.9)  # 0.9 + 0.9 + 0.9 in float32, divided by 3, is another number
        self.assertNotEqual((value + value + value) / np.float32(3), value)
        found = average_states([state(value)] * 3, averaged=["parameters"], counted=[])
        np.testing.assert_array_equal(found["parameters"], [value, value])


class AgreedTest(unittest.TestCase):
    def test_learners_that_differ_agree_on_what_is_written_as_agreed(self):
        found = agreed_learner(content(state(1.0), state(2.0), agreed=state(7.0)))
        np.testing.assert_array_equal(found["parameters"], [7.0, 7.0])

    def test_learners_that_are_equal_agree_on_the_first(self):
        equal = content(state(1.0), state(1.0), sync={"rounds_apart": 0})
        self.assertIs(agreed_learner(equal), equal["ranks"][0]["learner"])

    def test_an_earlier_version_s_checkpoint_of_learners_that_differ_gets_their_average(self):
        older = content(state(1.0, 2.0), state(4.0, 4.0))
        found = agreed_learner(with_agreement(older))
        np.testing.assert_array_equal(found["exp_avg_sq"], [7.5, 7.5])
        self.assertEqual(found["step"], 3.0)

    def test_nothing_is_added_where_nothing_is_missing(self):
        for complete in (
            content(state(1.0)),
            content(state(1.0), state(1.0)),
            content(state(1.0), state(2.0), sync={"rounds_apart": 1}, agreed=state(1.5)),
        ):
            self.assertIs(with_agreement(complete), complete)


if __name__ == "__main__":
    unittest.main()
