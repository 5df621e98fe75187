"""The arrays of a step."""

import unittest

import numpy as np

from ddp_ppo.protocols import Step


class StepTest(unittest.TestCase):
    def test_arrays_have_the_shapes_and_types_that_an_environment_fills(self):
        step = Step.allocate(3, 5)
        found = {name: (array.shape, array.dtype) for name, array in step._asdict().items()}
        observed, flags = ((3, 5), np.float32), ((3,), np.bool_)
        expected = {"obs": observed, "reward": ((3,), np.float64), "terminated": flags, "truncated": flags}
        self.assertEqual(found, expected | {"final_obs": observed})
        self.assertFalse(any(array.any() for array in step))
        self.assertFalse(any(np.shares_memory(step.obs, other) for other in step[1:]))


if __name__ == "__main__":
    unittest.main()
