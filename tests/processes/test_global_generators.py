"""The global generators of a process as plain values, and back."""

import random
import unittest

import numpy as np
import torch

from ddp_ppo.envs.state import require_plain
from ddp_ppo.processes.global_generators import restore_global_generators, save_global_generators


def draws():
    """A few numbers of each generator; normal ones leave half a pair behind."""
    return [
        *(random.random(), random.gauss(0, 1)),
        *(np.random.rand(), np.random.randn()),
        *torch.rand(1).tolist(),
    ]


class GlobalGeneratorsTest(unittest.TestCase):
    def setUp(self):
        self.addCleanup(restore_global_generators, save_global_generators())

    def test_they_continue_where_they_were_saved(self):
        draws()
        state = save_global_generators()
        expected = [draws(), draws()]
        restore_global_generators(state)
        self.assertEqual([draws(), draws()], expected)

    def test_what_is_saved_is_plain(self):
        require_plain(save_global_generators(), "generators")

    def test_a_generator_that_was_not_there_is_left_alone(self):
        state = save_global_generators()
        del state["torch"]
        torch.manual_seed(5)
        restore_global_generators(state)
        found = torch.rand(1)
        torch.manual_seed(5)
        self.assertEqual(found, torch.rand(1))


if __name__ == "__main__":
    unittest.main()
