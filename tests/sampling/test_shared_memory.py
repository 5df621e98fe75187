"""Memory that processes share: its arrays, its processes, its end, and its pages where a GPU reads them."""

import multiprocessing
import os
import unittest

import numpy as np
import torch

from ddp_ppo.sampling.shared_memory import SharedBlock, block_bytes, page_locked
from tests.support.updates import CPU, CUDA

JOIN_SECONDS = 60
SHAPES = {"act": ("float32", (3, 2, 5)), "flag": ("bool", (3, 2)), "choice": ("int64", (7,)), "one": ("float64", (1,))}
SHARED = {"first": ("float32", (5, 3)), "second": ("float64", (4000,))}


def write_column(block, column):
    """In a child process: fills one column and says that it saw what the parent wrote."""
    block.arrays["act"][:, column] = 10.0 + column
    block.arrays["choice"][column] = int(block.arrays["one"][0])


class SizeTest(unittest.TestCase):
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


class PageLockedTest(unittest.TestCase):
    def test_nothing_happens_where_there_is_no_cuda_device(self):
        block = SharedBlock(SHARED)
        self.addCleanup(block.close)
        with page_locked(block.memory, str(CPU), self.fail):
            block.arrays["second"][:] = 1.0
        self.assertFalse(torch.from_numpy(block.arrays["second"]).is_pinned())


@unittest.skipUnless(torch.cuda.is_available(), "needs a CUDA device")
class PageLockedOnCudaTest(unittest.TestCase):
    def test_shared_memory_is_page_locked_until_the_end(self):
        block = SharedBlock(SHARED)
        self.addCleanup(block.close)
        tensor = torch.from_numpy(block.arrays["second"])
        with page_locked(block.memory, str(CUDA), self.fail):
            self.assertTrue(tensor.is_pinned())
            block.arrays["second"][:] = 3.0
            self.assertEqual(float(tensor.to(CUDA, non_blocking=True).sum()), 12_000.0)
        self.assertFalse(tensor.is_pinned())

    def test_memory_that_cannot_be_locked_is_told_of_and_harms_nothing(self):
        block, told = SharedBlock(SHARED), []
        self.addCleanup(block.close)
        with page_locked(block.memory, str(CUDA), self.fail):
            with page_locked(block.memory, str(CUDA), told.append):  # locked already, so refused
                self.assertEqual(float(torch.ones(3, device=CUDA).sum()), 3.0)
            self.assertTrue(torch.from_numpy(block.arrays["second"]).is_pinned())
        self.assertEqual(len(told), 1)


if __name__ == "__main__":
    unittest.main()
