"""Raw observations as rows: of the environment's own shape, flattened, one alone or a batch."""

import unittest

import numpy as np

from ddp_ppo.observations.raw import rows_of
from ddp_ppo.protocols import EnvSpec

VECTOR = EnvSpec("A", 4, "discrete", 2, obs_shape=(4,))
MATRIX = EnvSpec("A", 6, "discrete", 2, obs_shape=(2, 3))
UNKNOWN = EnvSpec("A", 6, "discrete", 2)  # as in a file of an earlier release
IMAGE = EnvSpec("A", 12, "discrete", 2, image=(2, 2, 3))
FLAT_ROW = EnvSpec("A", 6, "discrete", 2, obs_shape=(1, 6))
SCALAR = EnvSpec("A", 1, "discrete", 2)
CHOICE = EnvSpec("A", 3, "discrete", 2, obs_start=5)


class RowsTest(unittest.TestCase):
    def test_one_observation_and_a_batch_of_any_number(self):
        for env, shape in ((VECTOR, (4,)), (MATRIX, (2, 3)), (UNKNOWN, (2, 3)), (IMAGE, (2, 2, 3)), (FLAT_ROW, (1, 6))):
            obs = np.arange(env.obs_size, dtype=np.float32).reshape(shape)
            for given, expected in ((obs, True), (obs.ravel(), True), (np.stack([obs, obs]), False)):
                with self.subTest(env=env, shape=given.shape):
                    rows, is_single = rows_of(given, vars(env))
                    self.assertEqual(is_single, expected)
                    for row in rows:
                        self.assertEqual(row.tolist(), list(range(env.obs_size)))
        for env in (VECTOR, MATRIX, UNKNOWN):
            self.assertEqual(rows_of(np.zeros((1, env.obs_size)), vars(env))[1], False)
        rows, is_single = rows_of(2.5, vars(SCALAR))
        self.assertEqual((rows.tolist(), is_single), ([[2.5]], True))

    def test_numbers_of_a_discrete_space_become_one_hot_rows(self):
        for given, rows, is_single in (
            (6, [[0, 1, 0]], True),
            (np.int64(5), [[1, 0, 0]], True),
            ([5, 6, 7], [[1, 0, 0], [0, 1, 0], [0, 0, 1]], False),
            ([7], [[0, 0, 1]], False),
            ([0.0, 0.0, 1.0], [[0, 0, 1]], True),
        ):
            with self.subTest(given):
                found, single = rows_of(given, vars(CHOICE))
                self.assertEqual((found.tolist(), single), (rows, is_single))
        for given in (4, 8, [5, 8]):
            with self.assertRaisesRegex(ValueError, "an observation of A is a number from 5 to 7"):
                rows_of(given, vars(CHOICE))

    def test_what_is_not_an_observation_is_refused_in_one_line(self):
        for given, words in (
            (np.zeros(5), r"an observation of A has 4 numbers, not the shape \(5,\)"),
            (np.zeros((4, 3)), r"has 4 numbers, not the shape \(4, 3\)"),
            (np.zeros((0, 4)), r"there is no observation in an array of the shape \(0, 4\)"),
            ([], "there is no observation"),
            ([0, 0, 1e300, 0], "observation not finite in column 2"),
            ([0, np.nan, 0, 0], "observation not finite in column 1"),
            ("abcd", "an array of numbers, not of"),
            (None, "an array of numbers, not of object"),
            ([1j, 0, 0, 0], "an array of numbers, not of complex"),
            ([[0, 0, 0, 0], [0, 0, 0]], "observations of unequal shapes"),
        ):
            with self.subTest(given), np.errstate(all="raise"), self.assertRaisesRegex(ValueError, words):
                rows_of(given, vars(VECTOR))


if __name__ == "__main__":
    unittest.main()
