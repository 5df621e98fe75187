"""Dot products of rows, as `np.dot` of single vectors gives them."""

import unittest

import numpy as np

from ddp_ppo.maths.rows import matmul_row_dots, row_dots


class RowDotsTest(unittest.TestCase):
    def test_each_row_has_the_bits_of_the_product_of_two_vectors(self):
        generator = np.random.default_rng(0)
        for dtype in (np.float32, np.float64):
            for shape in ((3,), (50, 1), (50, 2), (50, 17), (4, 5, 3)):
                first, second = generator.normal(size=(2, *shape)).astype(dtype)
                rows = (array.reshape(-1, shape[-1]) for array in (first, second))
                expected = [np.dot(*pair) for pair in zip(*rows, strict=True)]
                for dots in (row_dots, matmul_row_dots):
                    with self.subTest(dots.__name__, dtype=dtype.__name__, shape=shape):
                        found = dots(first, second)
                        self.assertEqual((found.dtype, found.shape), (dtype, shape[:-1]))
                        np.testing.assert_array_equal(found.ravel(), expected)


if __name__ == "__main__":
    unittest.main()
