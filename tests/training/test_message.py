"""A learner's message as a row of numbers and back."""

import unittest
import zlib

import numpy as np

from ddp_ppo.maths.moments import compute_batch_moments, empty_rms_state, merge_rms_states
from ddp_ppo.protocols import EpisodeEnd
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


def ended(episodes, **fields):
    """A report of episodes, each as (block, step, environment, return)."""
    ends, returns = [EpisodeEnd(*place) for *place, _ in episodes], [value for *_, value in episodes]
    return report(episodes=len(episodes), episode_ends=ends, episode_returns=returns, **fields)


class SumsTest(unittest.TestCase):
    def test_episodes_of_all_actors_are_added(self):
        reports = [
            ended([(0, 3, 1, 10.0)], episode_len_sum=7, episode_terminations=0),
            ended([(0, 2, 2, -5.0), (1, 0, 3, 1.0)], episode_len_sum=9, episode_terminations=2),
        ]
        self.assertEqual(EpisodeSums.of(reports), EpisodeSums(3, 6.0, 16, 2))

    def test_returns_are_added_block_by_block_whoever_steps_the_environments(self):
        # 1 vanishes beside 1e16, but not beside 0: (1e16 - 1e16) + (1 + 1) is 2, any other order gives 0 or 1.
        ends = [(0, 1, 0, 1e16), (0, 4, 1, -1e16), (1, 0, 2, 1.0), (1, 2, 3, 1.0)]
        for groups in ([ends], [ends[:1], ends[1:]], [ends[::-1]], [ends[2:], ends[:2]], [ends[::2], ends[1::2]]):
            self.assertEqual(EpisodeSums.of([ended(group) for group in groups]).returns, 2.0)

    def test_moments_of_all_blocks_are_merged_in_their_order(self):
        first, second = (compute_batch_moments(np.array(values)) for values in ([[0.0], [2.0]], [[4.0]]))
        found = merged([{1: second}, {}, {0: first}], 1)
        self.assertEqual((found["count"], found["mean"].tolist()), (3.0, [2.0]))
        self.assertEqual(found, merge_rms_states([first, second]))
        self.assertEqual(merged([{}, {}], 3)["count"], 0.0)


if __name__ == "__main__":
    unittest.main()
