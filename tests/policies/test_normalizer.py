"""What becomes of raw observations, by hand."""

import unittest

import numpy as np

from ddp_ppo.maths.moments import compute_batch_moments, empty_rms_state
from ddp_ppo.policies.normalizer import Normalizer

INF = float("inf")


def normalized(state, *rows):
    """Rows of one observation as a normaliser with this state returns them."""
    normalizer = Normalizer(1)
    normalizer.load(state)
    obs = np.array(rows, np.float32)[:, None]
    out = np.ones((len(rows), 2), np.float32)
    normalizer.centre(obs, out)
    assert (out[:, 1] == 1.0).all()
    return (out[:, 0] * normalizer.inv_std).tolist()


class NormalizerTest(unittest.TestCase):
    def test_no_state_is_the_identity(self):
        self.assertEqual(normalized(None, -1e6, 0.5, 1e6), [-1e6, 0.5, 1e6])

    def test_a_scale_counts_until_there_is_a_state(self):
        normalizer = Normalizer(1, scale=0.5)
        state = {"mean": np.zeros(1), "var": np.array([16.0]), "count": 1.0}
        for each, expected in ((None, 0.5), (state, 0.25), (None, 0.5)):
            normalizer.load(each)
            self.assertAlmostEqual(float(normalizer.inv_std[0]), expected)

    def test_before_any_statistics_only_the_clip_acts(self):  # C7, O-24
        self.assertEqual(normalized(empty_rms_state(1), -1e6, 0.5, 11.0), [-10.0, 0.5, 10.0])

    def test_observations_are_centred_and_scaled(self):
        state = {"mean": np.array([3.0]), "var": np.array([4.0]), "count": 5.0}
        np.testing.assert_allclose(normalized(state, 3, 5, 1, 103), [0, 1, -1, 10], rtol=1e-6)

    def test_constant_feature_becomes_zero(self):  # O-23
        state = compute_batch_moments(np.full((1000, 1), 5.0))
        self.assertEqual(normalized(state, 5.0), [0.0])

    def test_large_offset_keeps_its_spread(self):  # O-23
        state = compute_batch_moments(np.array([[10000.0], [10001.0], [10002.0]] * 100))
        np.testing.assert_allclose(normalized(state, 10000, 10001, 10002), [-1.224745, 0, 1.224745], rtol=1e-4)

    def test_outlier_is_clipped(self):  # O-24
        samples = np.random.default_rng(0).normal(size=(1000, 1))
        self.assertEqual(normalized(compute_batch_moments(samples), 1e9, -1e9), [10.0, -10.0])

    def test_state_is_frozen_until_the_next_one_and_none_is_the_identity_again(self):
        normalizer = Normalizer(1)
        state = {"mean": np.array([3.0]), "var": np.array([4.0]), "count": 5.0}
        normalizer.load(state)
        state["mean"][:] = 100.0
        obs, out = np.array([[23.0]], np.float32), np.ones((1, 2), np.float32)
        normalizer.centre(obs, out)
        self.assertAlmostEqual(float(out[0, 0]), 20.0, 5)  # times 1/2 in the weights
        normalizer.load(None)
        normalizer.centre(obs, out)
        self.assertEqual(float(out[0, 0]), 23.0)


if __name__ == "__main__":
    unittest.main()
