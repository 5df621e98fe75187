"""The tree of random streams: repeatable, distinct, stable."""

import contextlib
import itertools
import random
import unittest

import numpy as np

from ddp_ppo.maths.seeding import Purpose, integer_seed, kept_global_generators, seed_global_generators, stream


class SeedingTest(unittest.TestCase):
    def test_same_name_gives_the_same_numbers_from_their_beginning(self):
        first = stream(3, Purpose.ACTION_NOISE, 1, 2, 5)
        first.standard_normal(1000)
        again, other = (stream(3, Purpose.ACTION_NOISE, 1, 2, 5).standard_normal(10) for _ in range(2))
        np.testing.assert_array_equal(again, other)

    def test_every_part_of_a_name_changes_the_stream(self):
        draws = {}
        for seed, purpose, rank, index in itertools.product((0, 1, 2), Purpose, (0, 1, 2), (0, 1, 2)):
            draws[seed, purpose, rank, index] = stream(seed, purpose, rank, index).random()
        for seed, purpose, rank in itertools.product((0, 1, 2), Purpose, (0, 1, 2)):
            draws[seed, purpose, rank] = stream(seed, purpose, rank).random()
            draws[seed, purpose] = stream(seed, purpose).random()
        self.assertEqual(len(set(draws.values())), len(draws))

    def test_neighbouring_streams_are_independent(self):
        draws = np.array([stream(1, Purpose.ACTION_NOISE, 0, actor, 0).standard_normal(500) for actor in range(20)])
        correlations = np.corrcoef(draws)[np.triu_indices(20, 1)]
        self.assertLess(np.abs(correlations).max(), 5 / np.sqrt(500))  # 5 sigma
        self.assertLess(abs(draws.mean()), 5 / np.sqrt(draws.size))

    def test_meaning_of_a_seed_is_that_of_numpy_s_seed_sequence_and_stays(self):
        names = ["INIT", "ENVIRONMENT", "ACTION_NOISE", "SHUFFLE", "EVALUATION", "GLOBAL", "CONSTRUCTION"]
        self.assertEqual([purpose.name for purpose in Purpose], names)
        self.assertEqual([purpose.value for purpose in Purpose], [0, 1, 2, 3, 4, 5, 6])
        sequence = np.random.SeedSequence(7, spawn_key=(2, 0, 3))
        expected = np.random.PCG64(sequence).random_raw(4)
        np.testing.assert_array_equal(stream(7, Purpose.ACTION_NOISE, 0, 3).bit_generator.random_raw(4), expected)

    def test_integer_seeds_are_distinct_and_fit_31_bits(self):
        seeds = [integer_seed(1, Purpose.ENVIRONMENT, rank, env) for rank in range(8) for env in range(128)]
        self.assertEqual(len(set(seeds)), len(seeds))
        self.assertTrue(all(type(seed) is int and 0 <= seed < 2**31 for seed in seeds))
        self.assertGreater(max(seeds), 2**30)  # and use them
        self.assertEqual(seeds[5], integer_seed(1, Purpose.ENVIRONMENT, 0, 5))

    def test_global_generators_are_put_back_also_after_an_error(self):
        before = random.getstate(), np.random.get_state()[1].tolist()
        with contextlib.suppress(ValueError), kept_global_generators():
            seed_global_generators(5)
            self.assertNotEqual((random.getstate(), np.random.get_state()[1].tolist()), before)
            raise ValueError
        self.assertEqual((random.getstate(), np.random.get_state()[1].tolist()), before)

    def test_largest_seed_of_the_settings_works(self):
        self.assertNotEqual(stream(10**18, Purpose.INIT).random(), stream(10**18 - 1, Purpose.INIT).random())


if __name__ == "__main__":
    unittest.main()
