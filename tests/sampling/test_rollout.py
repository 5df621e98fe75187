"""Memory that processes share, and a round's data in it."""

import multiprocessing
import os
import unittest

import numpy as np

from ddp_ppo.sampling.rollout import RAW, Field, Normalization, Rollout, rollout_shapes
from ddp_ppo.sampling.shared_memory import SharedBlock, block_bytes

JOIN_SECONDS = 60
SHAPES = {"act": ("float32", (3, 2, 5)), "flag": ("bool", (3, 2)), "choice": ("int64", (7,)), "one": ("float64", (1,))}


def write_column(block, column):
    """In a child process: fills one column and says that it saw what the parent wrote."""
    block.arrays["act"][:, column] = 10.0 + column
    block.arrays["choice"][column] = int(block.arrays["one"][0])


class ShapesTest(unittest.TestCase):
    def test_rows_and_columns_come_first(self):
        fields = (Field("obs", "float32", (4,), extra_rows=1), Field("reward", "float32"), Field("done", "bool"))
        expected = {"obs": ("float32", (9, 3, 4)), "reward": ("float32", (8, 3)), "done": ("bool", (8, 3))}
        self.assertEqual(rollout_shapes(fields, 8, 3), expected)

    def test_block_is_a_page_at_least_and_as_large_as_its_arrays(self):
        self.assertGreaterEqual(block_bytes({}), 4096)
        num_bytes = block_bytes({"a": ("float32", (1000, 1000)), "b": ("uint8", (100_000,))})
        self.assertTrue(4_100_000 <= num_bytes < 4_110_000)


class SharedBlockTest(unittest.TestCase):
    def setUp(self):
        self.block = SharedBlock(SHAPES)
        self.addCleanup(self.block.close)

    def test_arrays_have_their_shape_and_type_and_begin_as_zeros(self):
        for name, (dtype, shape) in SHAPES.items():
            array = self.block.arrays[name]
            self.assertEqual((array.dtype, array.shape), (np.dtype(dtype), shape))
            self.assertFalse(array.any())

    def test_arrays_do_not_overlap_and_start_on_cache_lines(self):
        for number, array in enumerate(self.block.arrays.values(), 1):
            array[...] = number
            self.assertEqual(array.ctypes.data % 64, 0)
        for number, array in enumerate(self.block.arrays.values(), 1):
            np.testing.assert_array_equal(array, np.full_like(array, number))

    def test_memory_is_where_all_arrays_are(self):
        first = self.block.memory.ctypes.data
        for array in self.block.arrays.values():
            self.assertGreaterEqual(array.ctypes.data, first)
            self.assertLessEqual(array.ctypes.data + array.nbytes, first + self.block.memory.nbytes)
        self.assertEqual(self.block.memory.nbytes, block_bytes(SHAPES))

    def test_spawned_processes_write_into_the_same_memory(self):
        self.block.arrays["one"][0] = 42.0
        context = multiprocessing.get_context("spawn")
        children = [context.Process(target=write_column, args=(self.block, i), daemon=True) for i in range(2)]
        for child in children:
            child.start()
        for child in children:
            child.join(JOIN_SECONDS)
            self.assertEqual(child.exitcode, 0)
        np.testing.assert_array_equal(self.block.arrays["act"][:, 0], 10.0)
        np.testing.assert_array_equal(self.block.arrays["act"][:, 1], 11.0)
        self.assertEqual(self.block.arrays["choice"].tolist(), [42, 42, 0, 0, 0, 0, 0])

    def test_memory_outlives_its_descriptor_and_leaves_no_file(self):
        descriptors = set(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
        block = SharedBlock(SHAPES)
        array = block.arrays["choice"]
        block.close()
        array[:] = 7
        self.assertEqual(array.tolist(), [7] * 7)
        if descriptors is not None:
            del array, block
            self.assertLessEqual(set(os.listdir("/proc/self/fd")), descriptors)


class RolloutTest(unittest.TestCase):
    def test_samples_count_from_fill_to_clear(self):  # C15
        rollout = Rollout({"reward": np.zeros((8, 3), np.float32), "obs": np.zeros((9, 3, 4), np.float32)})
        self.assertEqual(rollout.buffer_size, 0)
        rollout.fill()
        self.assertEqual(rollout.buffer_size, 24)
        rollout.clear()
        self.assertEqual(rollout.buffer_size, 0)

    def test_it_says_what_it_was_normalised_with_last(self):
        rollout = Rollout({"reward": np.zeros((8, 3), np.float32)})
        self.assertEqual(rollout.normalization, RAW)
        rollout.fill(Normalization(None, 0.25))
        self.assertEqual(rollout.normalization.reward_scale, 0.25)
        rollout.fill()
        self.assertEqual(rollout.normalization, RAW)

    def test_arrays_are_found_by_name_and_not_copied(self):
        reward = np.zeros((8, 3), np.float32)
        rollout = Rollout({"reward": reward})
        rollout["reward"][2, 1] = 5.0
        self.assertEqual(reward[2, 1], 5.0)


class ShuffledTest(unittest.TestCase):
    def rollout(self, num_steps=6, num_envs=4):
        return Rollout({"reward": np.zeros((num_steps, num_envs), np.float32)})

    def test_single_samples_come_in_the_order_of_a_permutation(self):
        order = self.rollout().shuffled(1, np.random.default_rng(3))
        self.assertEqual(order.tolist(), [np.random.default_rng(3).permutation(24).tolist()])

    def test_sequences_are_steps_of_one_environment_in_a_row(self):
        order = self.rollout().shuffled(3, np.random.default_rng(3))
        self.assertEqual(order.shape, (3, 8))
        self.assertEqual(sorted(order.ravel().tolist()), list(range(24)))
        steps, envs = order // 4, order % 4
        self.assertTrue((envs == envs[0]).all())
        self.assertTrue((np.diff(steps, axis=0) == 1).all())
        self.assertEqual(set(steps[0].tolist()), {0, 3})


if __name__ == "__main__":
    unittest.main()
