"""Where the time of a round goes, on a clock that the test turns."""

import unittest
from unittest.mock import patch

from ddp_ppo.training.clock import Clock


class ClockTest(unittest.TestCase):
    def setUp(self):
        self.now = 100.0
        self.enterContext(patch("ddp_ppo.training.clock.time.perf_counter", lambda: self.now))
        self.clock = Clock()

    def spend(self, stage, seconds):
        with self.clock(stage):
            self.now += seconds

    def test_a_lap_has_the_seconds_of_each_stage_and_their_sum(self):
        self.spend("sample", 2.0)
        self.spend("train", 3.0)
        self.spend("sample", 0.5)
        self.assertEqual(self.clock.lap(), {"sample": 2.5, "train": 3.0, "round": 5.5})

    def test_what_lies_between_stages_belongs_to_none(self):
        self.spend("sample", 2.0)
        self.now += 7.0
        self.assertEqual(self.clock.lap(), {"sample": 2.0, "round": 2.0})

    def test_a_stage_goes_on_into_the_next_lap(self):
        with self.clock("record"):
            self.now += 1.0
            self.assertEqual(self.clock.lap(), {"record": 1.0, "round": 1.0})
            self.now += 4.0
        self.spend("sample", 2.0)
        self.assertEqual(self.clock.lap(), {"record": 4.0, "sample": 2.0, "round": 6.0})

    def test_a_stage_that_fails_has_taken_its_time_too(self):
        with self.assertRaises(ValueError), self.clock("train"):
            self.now += 1.0
            raise ValueError
        self.assertEqual(self.clock.lap()["train"], 1.0)


if __name__ == "__main__":
    unittest.main()
