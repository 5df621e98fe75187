"""One choice of several: where own values begin, what is read, and how often each choice is drawn."""

import unittest

import numpy as np

from ddp_ppo.actions.discrete import CategoricalHead, DiscreteAction

CHOICES = DiscreteAction(3, start=5)


class ValuesTest(unittest.TestCase):
    def test_own_values_begin_where_the_space_begins(self):
        self.assertEqual(CHOICES.to_own(np.array([0, 2])).tolist(), [5, 7])
        self.assertEqual(CHOICES.from_own(np.array([5, 7])).tolist(), [0, 2])
        self.assertEqual(CHOICES.column_names(), ["choice 5", "choice 6", "choice 7"])
        self.assertEqual(CHOICES.document(), [{"value": 5}, {"value": 6}, {"value": 7}])

    def test_what_is_read_must_be_a_choice(self):
        self.assertEqual(CHOICES.read(np.array([[5.0], [7.0]]))[0].tolist(), [5, 7])
        for values in ([4], [8], [5.5]):
            with self.assertRaisesRegex(ValueError, "whole numbers from 5 to 7"):
                CHOICES.read(np.array(values, float))
        with self.assertRaisesRegex(ValueError, "needs 1 finite number"):
            CHOICES.read(np.zeros((4, 2)))

    def test_every_choice_is_drawn_at_random(self):
        drawn = CHOICES.random(np.random.default_rng(0), 50, 2)
        self.assertEqual((drawn.shape, set(drawn.ravel().tolist())), ((50, 2), {0, 1, 2}))

    def test_the_first_choice_is_neutral_and_has_no_probe(self):
        self.assertEqual(CHOICES.probes(0, small=0.1), [])
        (probe,) = CHOICES.probes(2, small=0.1)
        self.assertEqual((probe.name, probe.act.tolist()), ("choice 2", 2))
        self.assertEqual(CHOICES.neutral_name(["open", "shut", "hold"]), "open")

    def test_one_curve_names_all_choices(self):
        (one,) = CHOICES.series(np.array([5, 7]), ["open", "shut", "hold"], ["", "", ""])
        self.assertEqual((one.title, one.note), ("Action", "5 open, 6 shut, 7 hold"))

    def test_a_summary_counts_own_values(self):
        self.assertEqual(CHOICES.figures(np.array([[2], [2], [0]])), {"choices": "7 x 2, 5 x 1"})


class HeadTest(unittest.TestCase):
    def test_choices_are_drawn_as_often_as_their_probability_says(self):
        head, size = CategoricalHead(3), 100_000
        probabilities = np.float32([0.2, 0.5, 0.3])
        sampler, act = head.sampler(1, size), np.empty(size, np.int64)
        sampler.begin(np.random.default_rng(1), np.zeros(0, np.float32))
        sampler.sample(0, np.broadcast_to(np.log(probabilities), (size, 3)), act)
        np.testing.assert_allclose(np.bincount(act) / size, probabilities, atol=0.01)

    def test_the_mode_is_the_likeliest_choice(self):
        self.assertEqual(CategoricalHead(3).mode(np.float32([[0, 2, 1], [3, 2, 1]])).tolist(), [1, 0])

    def test_uniform_logits_have_the_largest_entropy(self):
        logp, entropy = CategoricalHead(4).evaluate(np.array([0]), np.zeros((1, 4), np.float32), np.zeros(0))
        self.assertAlmostEqual(float(logp[0]), -np.log(4), 6)
        self.assertAlmostEqual(float(entropy[0]), np.log(4), 6)


class DisagreementTest(unittest.TestCase):
    def test_another_choice_counts_as_much_as_the_output_prefers_the_expected_one(self):
        output = np.float32([[0.5, 0.5, 0.25]])
        found = [CHOICES.disagreement(np.array([got]), np.array([0]), output).item() for got in (0, 1, 2, 3, -1)]
        self.assertEqual(found, [0.0, 0.0, 0.25, np.inf, np.inf])


if __name__ == "__main__":
    unittest.main()
