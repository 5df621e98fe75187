"""Which environments form a block, and what each actor has of it."""

import unittest

import numpy as np

from ddp_ppo.sampling.blocks import Part, are_shared, block_size, env_blocks, obs_moments, parts_of, return_moments


class BlocksTest(unittest.TestCase):
    def test_there_are_two_up_to_16_environments_then_blocks_of_8_then_eight_then_blocks_of_64(self):
        sizes = {1: 1, 2: 2, 3: 2, 4: 2, 8: 4, 12: 6, 15: 8, 16: 8, 17: 8, 24: 8, 64: 8, 100: 13, 512: 64, 4096: 64}
        self.assertEqual({num_envs: block_size(num_envs) for num_envs in sizes}, sizes)

    def test_together_they_are_all_environments_once(self):
        for num_envs in (*range(1, 40), 100, 1000):
            envs = [env for block in env_blocks(num_envs) for env in range(block.start, block.stop)]
            self.assertEqual(envs, list(range(num_envs)))

    def test_an_actor_may_have_several_blocks_and_parts_of_them(self):
        # 16 environments in blocks of 8, shared by three actors as 6, 5 and 5
        self.assertEqual(parts_of(slice(0, 6), 16), [Part(0, 8, slice(0, 6), slice(0, 6))])
        second = [Part(0, 8, slice(0, 2), slice(6, 8)), Part(1, 8, slice(2, 5), slice(0, 3))]
        self.assertEqual(parts_of(slice(6, 11), 16), second)
        self.assertEqual(parts_of(slice(11, 16), 16), [Part(1, 8, slice(0, 5), slice(3, 8))])
        both = [Part(0, 8, slice(0, 8), slice(0, 8)), Part(1, 8, slice(8, 16), slice(0, 8))]
        self.assertEqual(parts_of(slice(0, 16), 16), both)
        self.assertEqual([part.is_complete for part in (*both, *second)], [True, True, False, False])

    def test_a_last_block_that_is_smaller_is_complete_with_what_it_has(self):
        (part,) = parts_of(slice(16, 20), 20)
        self.assertEqual(part, Part(2, 4, slice(0, 4), slice(0, 4)))
        self.assertTrue(part.is_complete)

    def test_blocks_are_shared_where_an_actor_ends_inside_of_one(self):
        self.assertFalse(are_shared([slice(0, 8), slice(8, 16)], 16))
        self.assertFalse(are_shared([slice(0, 16)], 16))
        self.assertTrue(are_shared([slice(0, 6), slice(6, 11), slice(11, 16)], 16))


class MomentsTest(unittest.TestCase):
    def test_they_are_those_of_the_block_s_steps_without_the_row_behind_them(self):
        obs = np.arange(12, dtype=np.float32).reshape(3, 4, 1)  # rows 0..3, 4..7, and 8..11 behind the rollout
        found = obs_moments(obs, slice(1, 3))  # of 1 2 5 6
        self.assertEqual((found["count"], found["mean"].tolist(), found["var"].tolist()), (4.0, [3.5], [4.25]))
        found = return_moments(obs[:, :, 0].astype(np.float64), slice(0, 1))  # of 0 4 8
        self.assertEqual((found["count"], found["mean"].tolist()), (3.0, [4.0]))


if __name__ == "__main__":
    unittest.main()
