"""The seconds of a round, each counted once."""

import unittest

from ddp_ppo.training.time_split import with_time_split


class TimeSplitTest(unittest.TestCase):
    def test_no_second_counts_twice(self):
        row = {"a": 1.0, "time/transfer_seconds": 0.5, "time/idle_seconds": 0.25, "b": 2.0}
        before = dict(row)
        seconds = {"sample": 4.0, "annotate": 1.0, "train": 3.0, "sync": 0.5, "record": 2.5, "round": 10.0}
        found = with_time_split(row, seconds, num_steps=640, elapsed_seconds=70.0)
        self.assertEqual(row, before)
        split = {"sample": 3.0, "annotate": 1.0, "transfer": 0.5, "train": 2.5, "sync": 0.5, "record": 2.5}
        expected = {"a": 1.0, "b": 2.0, "time/steps_per_second": 64.0, "time/elapsed_seconds": 70.0}
        expected |= {f"time/{name}_seconds": value for name, value in {**split, "idle": 0.25, "round": 10.0}.items()}
        self.assertEqual(list(found.items()), list(expected.items()))
        self.assertEqual(sum(split.values()), seconds["round"])

    def test_annotation_that_overlaps_training_leaves_no_negative_time(self):
        row = {"time/transfer_seconds": 0.0, "time/idle_seconds": 0.0}
        seconds = {"sample": 0.1, "annotate": 1.0, "train": 3.0, "sync": 0.0, "record": 0.0, "round": 3.1}
        found = with_time_split(row, seconds, num_steps=1, elapsed_seconds=0.0)
        self.assertEqual(found["time/sample_seconds"], 0.0)


if __name__ == "__main__":
    unittest.main()
