"""The replay: what it keeps, what it gives back, and that it goes on where it was."""

import unittest

import torch

from ddp_ppo.learners.disco.batch import Trajectories
from ddp_ppo.learners.disco.replay import ReplayBuffer
from tests.support.disco_golden import CPU, random_batch


def numbered(*numbers):
    """One trajectory for each number, which is its reward throughout."""
    batch = random_batch(3, len(numbers), 2)
    return batch._replace(reward=torch.tensor(numbers).float().expand(3, -1).contiguous())


def content(replay):
    """The numbers of its trajectories, the oldest one first."""
    return replay.sample(torch.arange(len(replay))).reward[0].tolist()


class ReplayTest(unittest.TestCase):
    def test_oldest_ones_are_replaced(self):
        replay = ReplayBuffer(5, CPU)
        sizes = []
        for numbers in ([1, 2], [3, 4], [5, 6], [7, 8]):
            replay.add(numbered(*numbers))
            sizes.append(len(replay))
        self.assertEqual(sizes, [2, 4, 5, 5])
        self.assertEqual(content(replay), [4, 5, 6, 7, 8])

    def test_more_than_it_holds_keeps_the_last_ones(self):
        replay = ReplayBuffer(3, CPU)
        replay.add(numbered(0))
        replay.add(numbered(*range(1, 8)))
        self.assertEqual(content(replay), [5, 6, 7])

    def test_sample_is_in_the_order_of_the_numbers_and_time_comes_first(self):
        replay = ReplayBuffer(4, CPU)
        batch = numbered(10, 11, 12)
        replay.add(batch)
        sample = replay.sample(torch.tensor([2, 0, 0, 1]))
        for name in Trajectories._fields:
            expected = getattr(batch, name)[:, [2, 0, 0, 1]]
            torch.testing.assert_close(getattr(sample, name), expected, rtol=0, atol=0)

    def test_it_holds_copies(self):
        replay = ReplayBuffer(2, CPU)
        batch = numbered(1, 2)
        replay.add(batch)
        batch.reward.zero_()
        self.assertEqual(content(replay), [1, 2])

    def test_goes_on_where_it_was(self):
        replay, other = ReplayBuffer(5, CPU), ReplayBuffer(5, CPU)
        other.add(numbered(99))
        for numbers in ([1, 2, 3], [4, 5, 6]):
            replay.add(numbered(*numbers))
        other.load_state_dict(replay.state_dict())
        self.assertEqual(content(other), [2, 3, 4, 5, 6])
        for each in (replay, other):
            each.add(numbered(7, 8))
        self.assertEqual(content(other), content(replay))
        other.load_state_dict(ReplayBuffer(5, CPU).state_dict())
        self.assertEqual(len(other), 0)

    def test_smaller_one_goes_on_with_the_newest(self):
        replay, other = ReplayBuffer(5, CPU), ReplayBuffer(2, CPU)
        replay.add(numbered(1, 2, 3, 4))
        other.load_state_dict(replay.state_dict())
        self.assertEqual(content(other), [3, 4])

    def test_trajectories_of_another_length_begin_it_anew(self):
        replay = ReplayBuffer(5, CPU)
        replay.add(numbered(1, 2))
        longer = random_batch(4, 1, 2)
        replay.add(longer)
        self.assertEqual(len(replay), 1)
        torch.testing.assert_close(replay.sample(torch.arange(1)).reward, longer.reward)

    def test_one_without_capacity_takes_nothing_of_another(self):
        replay, other = ReplayBuffer(4, CPU), ReplayBuffer(0, CPU)
        replay.add(numbered(1, 2))
        other.load_state_dict(replay.state_dict())
        self.assertEqual(len(other), 0)


if __name__ == "__main__":
    unittest.main()
