"""Random streams of environments: SplitMix64's published numbers, and independence from who draws together."""

import unittest

import numpy as np

from ddp_ppo.tasks.vectorised.streams import Streams

# The first outputs of the reference implementation (Vigna, prng.di.unimi.it/splitmix64.c) from the state 1234567.
REFERENCE = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]


class StreamsTest(unittest.TestCase):
    def seeded(self, *seeds):
        streams = Streams(len(seeds))
        streams.seed(seeds)
        return streams

    def test_numbers_are_those_of_splitmix64(self):
        streams = Streams(2)
        streams.keys[:] = 1234567
        first, rest = streams.integers(2), streams.integers(3)
        for row in np.concatenate([first, rest], axis=1):
            self.assertEqual(row.tolist(), REFERENCE)

    def test_uniform_numbers_are_the_upper_53_bits_of_them(self):
        streams = Streams(1)
        streams.keys[:] = 1234567
        expected = [-1.0 + 4.0 * (value >> 11) / 2**53 for value in REFERENCE]
        np.testing.assert_array_equal(streams.uniform(5, -1.0, 3.0)[0], expected)

    def test_noise_is_two_numbers_of_24_bits_from_each(self):
        streams = Streams(1)
        streams.keys[:] = 1234567
        halves = [half for value in REFERENCE[:2] for half in (value & 0xFFFFFFFF, value >> 32)]
        expected = np.array([(half >> 8) / 2**23 - 1.0 for half in halves[:3]], np.float32)
        noise = streams.noise(3)
        np.testing.assert_array_equal(noise[0], expected)
        self.assertEqual(noise.dtype, np.float32)

    def test_a_stream_does_not_depend_on_its_neighbours(self):
        together, alone = self.seeded(1, 2, 3), self.seeded(2)
        together.uniform(4, ids=np.array([0, 2], np.int32))
        np.testing.assert_array_equal(together.uniform(6)[1], alone.uniform(6)[0])

    def test_streams_of_different_seeds_differ_and_of_equal_seeds_agree(self):
        drawn = self.seeded(7, 8, 7).uniform(10)
        np.testing.assert_array_equal(drawn[0], drawn[2])
        self.assertFalse((drawn[0] == drawn[1]).any())

    def test_a_stream_goes_on_from_its_key_and_count(self):
        streams, other = self.seeded(5), Streams(1)
        streams.integers(3)
        other.keys[:], other.counts[:] = streams.keys, streams.counts
        np.testing.assert_array_equal(other.integers(4), streams.integers(4))

    def test_a_million_uniform_numbers_have_the_moments_of_the_uniform_distribution(self):
        drawn = self.seeded(*range(1000)).uniform(1000)
        self.assertAlmostEqual(drawn.mean(), 0.5, delta=5 * (1 / 12) ** 0.5 / 1000)
        self.assertAlmostEqual(drawn.var(), 1 / 12, delta=5e-4)
        self.assertLess(np.abs(np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1]), 0.15)


if __name__ == "__main__":
    unittest.main()
