"""What an observation, a reward and a limit may be, and what not; the planted faults are in test_check."""

import unittest

import numpy as np
from gymnasium.spaces import Box, Discrete

from ddp_ppo.check.interface import array_faults, bounds_faults, observation_faults, reward_faults
from ddp_ppo.check.trial import StageError
from ddp_ppo.protocols import EnvSpec

BOX = Box(np.array([-1, 0], np.float32), np.array([1, np.inf], np.float32))


class ObservationTest(unittest.TestCase):
    def test_what_lies_in_the_space_is_right(self):
        self.assertEqual(observation_faults(BOX, np.array([1, 9e9], np.float32)), [])
        self.assertEqual(observation_faults(BOX, np.array([1, 9], np.float16)), [])  # loses nothing on its way
        self.assertEqual(observation_faults(Box(0, 255, (2, 2), np.uint8), np.full((2, 2), 255, np.uint8)), [])
        for choice in (2, np.int64(2), np.array(2)):
            self.assertEqual(observation_faults(Discrete(3), choice), [])

    def test_what_lies_outside_is_named_with_its_column(self):
        (fault,) = observation_faults(BOX, np.array([0, -0.5], np.float32))
        self.assertEqual(fault, "column 1 of the observation is -0.5, its space says [0, inf]")
        self.assertEqual(observation_faults(Discrete(3), 3), ["observation 3 is not in Discrete(3)"])

    def test_what_nothing_can_go_on_from_ends_the_check(self):
        for obs in (np.array([0, np.inf], np.float32), np.zeros(3, np.float32), np.array(["a", "b"]), None):
            with self.subTest(obs), self.assertRaises(StageError):
                observation_faults(BOX, obs)


class RewardTest(unittest.TestCase):
    def test_numbers_are_right(self):
        for reward in (1, 1.0, np.float32(1), np.float64(1), np.int64(1)):
            self.assertEqual(reward_faults(reward), [])

    def test_what_only_holds_a_number_is_a_fault(self):
        for reward in (True, np.bool_(True), np.array(1.0), np.array([1.0]), [1.0]):
            with self.subTest(reward):
                self.assertEqual(len(reward_faults(reward)), 1)

    def test_what_is_no_finite_number_ends_the_check(self):
        for reward in (None, "1", np.nan, -np.inf, np.zeros(2), {}):
            with self.subTest(reward), self.assertRaises(StageError):
                reward_faults(reward)


class ArrayTest(unittest.TestCase):
    def test_limits_are_named_up_to_three(self):
        spec = EnvSpec("Any-v0", 1, "box", 5, (-np.inf,) * 5, (1.0,) * 5)
        faults = bounds_faults(spec)
        self.assertEqual(len(faults), 4)
        self.assertEqual(faults[-1], "and 2 more actions likewise")

    def test_an_array_of_another_shape_ends_the_check_and_one_of_another_dtype_does_not(self):
        wanted = {"reward": ((2,), np.float64)}
        self.assertEqual(array_faults({"reward": np.zeros(2)}, wanted), [])
        self.assertEqual(array_faults({"reward": np.zeros(2, int)}, wanted), ["reward has dtype int64, not float64"])
        with self.assertRaisesRegex(StageError, r"reward is an array of shape \(3,\)"):
            array_faults({"reward": np.zeros(3)}, wanted)


if __name__ == "__main__":
    unittest.main()
