"""Of the last observations of episodes only those that were written need memory; they are read as of a dense array."""

import pickle
import unittest

import numpy as np

from ddp_ppo.sampling.final_obs import FinalObs

T, K, D = 6, 3, 2


def filled(dtype="float32", seed=0):
    """The rows of a few steps, and the dense array and mask that they are of."""
    generator = np.random.default_rng(seed)
    final, dense = FinalObs(T, K, dtype), generator.integers(0, 255, (T, K, D)).astype(dtype)
    mask = generator.random((T, K)) < 0.3
    for step in np.flatnonzero(mask.any(axis=1)):
        final[step][mask[step]] = dense[step][mask[step]]
    return final, dense, mask


class FinalObsTest(unittest.TestCase):
    def test_it_reads_as_the_dense_array_of_its_kind(self):
        for dtype in ("float32", "uint8"):
            final, dense, mask = filled(dtype)
            self.assertEqual(final[mask].dtype, dtype)
            np.testing.assert_array_equal(final[mask], dense[mask])
            some = mask & (np.arange(K) != 1)
            np.testing.assert_array_equal(final[some], dense[some])

    def test_a_copy_is_kept_until_the_next_rollout(self):
        final, obs, mask = FinalObs(T, K, "float32"), np.ones((1, D), np.float32), np.zeros((T, K), bool)
        mask[2, 1] = True
        final[2][mask[2]] = obs
        obs[:] = 7.0
        self.assertEqual(final[mask].tolist(), [[1.0, 1.0]])
        final.clear()
        with self.assertRaisesRegex(ValueError, "environment 1, step 3 of the rollout: .* rows.final_obs"):
            final[mask]

    def test_nothing_is_read_of_a_mask_without_a_step(self):
        self.assertEqual(len(FinalObs(T, K, "uint8")[np.zeros((T, K), bool)]), 0)

    def test_actors_are_joined_in_the_order_of_their_environments(self):
        parts = [filled(seed=seed) for seed in (1, 2)]
        whole = FinalObs.joined([pickle.loads(pickle.dumps(final)) for final, _, _ in parts])
        dense, mask = (np.concatenate([part[i] for part in parts], axis=1) for i in (1, 2))
        np.testing.assert_array_equal(whole[mask], dense[mask])


if __name__ == "__main__":
    unittest.main()
