"""Statistics of returns; right values by hand."""

import itertools
import math
import unittest

import numpy as np

from ddp_ppo.maths.statistics import (
    bootstrap_interval,
    chance_of_difference,
    holm,
    iqm,
    iqm_of_rows,
    mean_of_rows,
    probability_of_improvement,
)


class IqmTest(unittest.TestCase):
    def test_it_is_the_mean_without_the_outer_quarters(self):
        self.assertEqual(iqm([8, 1, 2, 7, 3, 100, 4, -50]), (2 + 3 + 4 + 7) / 4)

    def test_a_quarter_is_rounded_down(self):
        for values, expected in (([5], 5), ([1, 9], 5), ([0, 1, 8], 3), ([0, 2, 4, 90], 3), ([0, 2, 4, 6, 90], 4)):
            with self.subTest(values):
                self.assertEqual(iqm(values), expected)

    def test_one_wild_value_does_not_move_it(self):
        self.assertEqual(iqm([1, 2, 3, 4]), iqm([1, 2, 3, 1e9]))

    def test_nothing_and_what_is_not_finite_are_refused(self):
        for values in ([], [1.0, math.nan], [math.inf], [[1.0, 2.0]]):
            with self.subTest(values), self.assertRaisesRegex(ValueError, "finite values"):
                iqm(values)


class BootstrapTest(unittest.TestCase):
    def test_it_covers_the_mean_of_a_normal_sample_as_wide_as_the_formula_says(self):
        values = np.random.default_rng(3).normal(10.0, 4.0, 400)
        low, high = bootstrap_interval(values, mean_of_rows)
        half = 1.96 * values.std() / 20.0  # of a mean of 400 values
        self.assertAlmostEqual(low, values.mean() - half, delta=0.03)
        self.assertAlmostEqual(high, values.mean() + half, delta=0.03)

    def test_two_values_are_resampled_to_both_ends_and_the_middle(self):
        # The mean of a resample of {0, 1} is 0, 1/2, 1 with probability 1/4, 1/2, 1/4.
        self.assertEqual(bootstrap_interval([0, 1], mean_of_rows), (0.0, 1.0))
        self.assertEqual(bootstrap_interval([0, 1], mean_of_rows, level=0.4), (0.5, 0.5))

    def test_of_up_to_five_values_every_resample_is_taken(self):
        # The lowest mean of {0, 0, 0, 0, 1} is 0 with (4/5)^5 = 32.8 %; 3/5 and more have 5.8 %, 4/5 and more 0.67 %.
        self.assertEqual(bootstrap_interval([0, 0, 0, 0, 1], mean_of_rows), (0.0, 0.6))
        values = [1.0, 20.0, 300.0, 4000.0, 50000.0]
        intervals = {bootstrap_interval(values, iqm_of_rows, seed=seed) for seed in range(3)}
        exact = sorted(np.sort(draws)[1:4].mean() for draws in itertools.product(values, repeat=5))
        self.assertEqual(intervals, {(exact[78], exact[3046])})  # ranks 79 and 3047 of 3125: 2.5 % and 97.5 %

    def test_many_values_are_resampled_in_blocks(self):
        values = np.random.default_rng(7).normal(size=3000)
        low, high = bootstrap_interval(values, mean_of_rows, num_resamples=2000)
        self.assertAlmostEqual(high - low, 2 * 1.96 * values.std() / 3000**0.5, delta=0.006)

    def test_the_same_seed_gives_the_same_interval_and_another_one_a_close_one(self):
        values = np.random.default_rng(5).normal(size=30)
        first = bootstrap_interval(values, iqm_of_rows)
        self.assertEqual(bootstrap_interval(values, iqm_of_rows), first)
        other = bootstrap_interval(values, iqm_of_rows, seed=1)
        self.assertNotEqual(other, first)
        np.testing.assert_allclose(other, first, atol=0.1)

    def test_equal_values_have_an_interval_of_no_width(self):
        self.assertEqual(bootstrap_interval([7.0] * 9, iqm_of_rows), (7.0, 7.0))

    def test_a_single_value_tells_nothing_of_the_spread(self):
        self.assertTrue(all(map(math.isnan, bootstrap_interval([7.0], iqm_of_rows))))


class ImprovementTest(unittest.TestCase):
    def test_it_counts_pairs_and_ties_half(self):
        # 3 > 1, 3 > 2, 3 = 3; 2 > 1, 2 = 2, 2 < 3
        self.assertAlmostEqual(probability_of_improvement([3, 2], [1, 2, 3]), (2.5 + 1.5) / 6)

    def test_both_directions_add_to_one(self):
        a, b = np.random.default_rng(1).normal(size=(2, 9))
        self.assertAlmostEqual(probability_of_improvement(a, b) + probability_of_improvement(b, a), 1.0)

    def test_the_ends_are_sure(self):
        self.assertEqual(probability_of_improvement([5, 6], [1, 2, 3]), 1.0)
        self.assertEqual(probability_of_improvement([1], [2, 3]), 0.0)
        self.assertEqual(probability_of_improvement([4, 4], [4]), 0.5)


class HolmTest(unittest.TestCase):
    def test_the_smallest_chance_counts_for_all_and_none_falls_below_a_smaller_one(self):
        # 3 x 0.01; 2 x 0.03; max(0.06, 1 x 0.04)
        np.testing.assert_allclose(holm([0.04, 0.01, 0.03]), [0.06, 0.03, 0.06])
        self.assertEqual(holm([0.9, 0.8]), [1.0, 1.0])
        self.assertEqual((holm([0.02]), holm([])), ([0.02], []))


class ChanceTest(unittest.TestCase):
    def test_of_three_against_three_two_deals_of_twenty_part_completely(self):
        self.assertAlmostEqual(chance_of_difference([4, 5, 6], [1, 2, 3]), 2 / 20)
        self.assertAlmostEqual(chance_of_difference([1, 2, 3], [4, 5, 6]), 2 / 20)

    def test_of_one_against_three_the_highest_alone_is_as_clear_as_the_lowest(self):
        self.assertAlmostEqual(chance_of_difference([9], [1, 2, 3]), 2 / 4)

    def test_what_is_alike_says_nothing(self):
        self.assertEqual(chance_of_difference([1, 1], [1, 1, 1]), 1.0)
        self.assertEqual(chance_of_difference([1, 4], [2, 3]), 1.0)

    def test_many_values_are_dealt_by_a_seeded_sample(self):
        generator = np.random.default_rng(3)
        a, b = generator.normal(0.0, 1.0, 20), generator.normal(0.8, 1.0, 20)
        found = chance_of_difference(a, b)
        self.assertEqual(chance_of_difference(a, b), found)
        # Mann and Whitney's normal approximation of the same test
        z = (probability_of_improvement(b, a) - 0.5) / math.sqrt(41 / (12 * 20 * 20))
        self.assertAlmostEqual(found, math.erfc(abs(z) / math.sqrt(2.0)), delta=0.01)


if __name__ == "__main__":
    unittest.main()
