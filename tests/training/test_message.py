"""A learner's message as a row of numbers and back."""

import unittest
import zlib

import numpy as np

from ddp_ppo.maths.moments import compute_batch_moments, empty_rms_state
from ddp_ppo.training.message import EpisodeSums, Message, merged
from tests.support.fixtures import report


def message(**changes):
    fields = {
        "stop_signal": 15,
        "terms_checksum": 2**32 - 1,
        "episodes": EpisodeSums(3.0, -7.5, 40.0, 1.0),
        "checksums": {"parameters": zlib.crc32(b"a"), "step": 0},
        "obs_moments": compute_batch_moments(np.array([[1.0, 2.0], [3.0, 5.0]])),
        "return_moments": empty_rms_state(1),
        "metrics": {"buffer_size": 256.0, "train/loss": float("nan")},
    }
    return Message(**{**fields, **changes})


class PackTest(unittest.TestCase):
    def test_a_message_comes_back_to_the_last_bit(self):
        sent = message()
        row = sent.pack()
        self.assertEqual((row.dtype, row.shape), (np.float64, (2 + 4 + 2 + 5 + 3 + 2,)))
        found = message(stop_signal=0, metrics={"buffer_size": 0.0, "train/loss": 0.0}).unpack(row)
        np.testing.assert_equal(vars(found), vars(sent))

    def test_names_and_sizes_are_those_of_the_reader(self):
        found = message().unpack(np.arange(18.0))
        self.assertEqual(found.checksums, {"parameters": 6, "step": 7})
        self.assertEqual(found.obs_moments["count"], 8.0)
        self.assertEqual([found.obs_moments[name].tolist() for name in ("mean", "var")], [[9.0, 10.0], [11.0, 12.0]])
        self.assertEqual(found.metrics, {"buffer_size": 16.0, "train/loss": 17.0})


class SumsTest(unittest.TestCase):
    def test_episodes_of_all_actors_are_added(self):
        reports = [
            report(episodes=1, episode_return_sum=10.0, episode_len_sum=7, episode_terminations=0),
            report(episodes=2, episode_return_sum=-4.0, episode_len_sum=9, episode_terminations=2),
        ]
        self.assertEqual(EpisodeSums.of(reports), EpisodeSums(3, 6.0, 16, 2))

    def test_moments_of_all_actors_are_merged_and_those_without_any_do_not_count(self):
        first, second = (compute_batch_moments(np.array(values)) for values in ([[0.0], [2.0]], [[4.0]]))
        found = merged([first, None, second], 1)
        self.assertEqual((found["count"], found["mean"].tolist()), (3.0, [2.0]))
        self.assertEqual(merged([None, None], 3)["count"], 0.0)


if __name__ == "__main__":
    unittest.main()
