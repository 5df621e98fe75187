"""Moments of batches and their merging, against hand-worked values and those of the concatenated data."""

import unittest

import numpy as np

from ddp_ppo.maths.moments import compute_batch_moments, empty_rms_state, merge_rms_states


def column(*values, dtype=np.float64):
    return np.array(values, dtype)[:, None]


class BatchMomentsTest(unittest.TestCase):
    def test_population_moments_of_each_column(self):
        state = compute_batch_moments(np.array([[1.0, 10.0], [2.0, 10.0], [3.0, 40.0]]))
        np.testing.assert_allclose(state["mean"], [2, 20])
        np.testing.assert_allclose(state["var"], [2 / 3, 200])
        self.assertEqual(state["count"], 3.0)
        self.assertEqual((state["mean"].dtype, state["var"].dtype, type(state["count"])), (float, float, float))

    def test_large_offset_in_float32_does_not_cancel(self):  # O-23
        state = compute_batch_moments(np.tile(column(10000, 10001, 10002, dtype=np.float32), (1000, 1)))
        np.testing.assert_allclose(state["mean"], 10001, rtol=1e-12)
        np.testing.assert_allclose(np.sqrt(state["var"]), 0.816497, rtol=1e-6)

    def test_constant_column_has_variance_zero(self):  # O-23
        for value in (5.0, 0.1, -1e6 / 3):
            state = compute_batch_moments(np.full((1000, 1), value, np.float32))
            np.testing.assert_allclose(state["mean"], np.float32(value), rtol=1e-12)
            np.testing.assert_allclose(state["var"], 0, atol=1e-15)

    def test_bytes_do_not_wrap_around(self):  # O-19
        state = compute_batch_moments(np.array([[0, 255], [255, 0]] * 50, np.uint8))
        np.testing.assert_array_equal(state["mean"], [127.5, 127.5])
        np.testing.assert_array_equal(state["var"], [127.5**2] * 2)

    def test_single_sample_has_variance_zero(self):
        state = compute_batch_moments(column(7))
        self.assertEqual((state["mean"][0], state["var"][0], state["count"]), (7.0, 0.0, 1.0))

    def test_empty_batch_is_refused(self):
        with self.assertRaisesRegex(ValueError, r"N > 0, got shape \(0, 3\)"):
            compute_batch_moments(np.empty((0, 3)))

    def test_batch_of_another_rank_is_refused(self):
        for shape in ((3,), (2, 3, 4), ()):
            with self.assertRaisesRegex(ValueError, r"\[N, D\]"):
                compute_batch_moments(np.zeros(shape))

    def test_value_that_is_not_finite_is_refused_and_its_column_named(self):
        for value in (np.nan, np.inf, -np.inf):
            samples = np.zeros((4, 3), np.float32)
            samples[2, 1] = value
            with self.subTest(value), np.errstate(invalid="ignore"), self.assertRaisesRegex(ValueError, "column 1 "):
                compute_batch_moments(samples)


class MergeTest(unittest.TestCase):
    def test_uneven_batches_are_weighted_and_their_distance_counts(self):  # O-26
        merged = merge_rms_states([compute_batch_moments(column(0, 0, 0, 0)), compute_batch_moments(column(10, 10))])
        self.assertEqual(merged["count"], 6.0)
        np.testing.assert_allclose(merged["mean"], 3.333333, rtol=1e-6)
        np.testing.assert_allclose(merged["var"], 22.222222, rtol=1e-6)

    def test_merge_equals_the_moments_of_the_concatenated_data(self):  # C10
        generator = np.random.default_rng(0)
        batches = [
            generator.normal(1e4 * i, 3.0 ** (i - 3), (size, 2)) for i, size in enumerate((1, 2, 500, 3, 77, 1000))
        ]
        merged = merge_rms_states([compute_batch_moments(batch) for batch in batches])
        together = np.concatenate(batches)
        self.assertEqual(merged["count"], 1583.0)
        np.testing.assert_allclose(merged["mean"], together.mean(axis=0), rtol=1e-9)
        np.testing.assert_allclose(merged["var"], together.var(axis=0), rtol=1e-9)

    def test_order_of_merging_does_not_matter(self):
        generator = np.random.default_rng(1)
        a, b, c = (compute_batch_moments(generator.normal(i, 1.0, (10 + i, 3))) for i in range(3))
        nested = merge_rms_states([merge_rms_states([c, a]), b])
        for name, value in merge_rms_states([a, b, c]).items():
            np.testing.assert_allclose(nested[name], value, rtol=1e-12)

    def test_many_rounds_count_every_sample_once(self):  # O-27
        generator = np.random.default_rng(2)
        history, data = empty_rms_state(1), []
        for _ in range(100):
            batches = [generator.normal(5.0, 2.0, (64, 1)) for _ in range(2)]
            data += batches
            history = merge_rms_states([history, *map(compute_batch_moments, batches)])
        self.assertEqual(history["count"], 12800.0)
        np.testing.assert_allclose(history["mean"], np.concatenate(data).mean(), rtol=1e-9)
        np.testing.assert_allclose(history["var"], np.concatenate(data).var(), rtol=1e-9)

    def test_std_does_not_decay_over_a_million_samples(self):  # O-23
        batch = compute_batch_moments(np.tile(column(10000, 10001, 10002), (333, 1)))
        history = empty_rms_state(1)
        for _ in range(1002):
            history = merge_rms_states([history, batch])
        self.assertEqual(history["count"], 999.0 * 1002)
        np.testing.assert_allclose(history["mean"], 10001, rtol=1e-12)
        np.testing.assert_allclose(np.sqrt(history["var"]), np.sqrt(2 / 3), rtol=1e-9)

    def test_no_new_data_changes_not_a_bit(self):
        state = compute_batch_moments(np.random.default_rng(3).normal(size=(50, 3)))
        for states in ([state], [empty_rms_state(3), state], [state, empty_rms_state(3), empty_rms_state(3)]):
            merged = merge_rms_states(states)
            for name, value in state.items():
                np.testing.assert_array_equal(merged[name], value)

    def test_only_empty_states_stay_empty(self):
        merged = merge_rms_states([empty_rms_state(2), empty_rms_state(2)])
        np.testing.assert_array_equal(merged["mean"], [0, 0])
        np.testing.assert_array_equal(merged["var"], [1, 1])
        self.assertEqual(merged["count"], 0.0)

    def test_result_shares_no_memory_with_its_sources(self):
        state = compute_batch_moments(column(1, 3))
        merged = merge_rms_states([state])
        merged["mean"] += 1
        merged["var"] += 1
        self.assertEqual((state["mean"][0], state["var"][0]), (2.0, 1.0))

    def test_nothing_to_merge_is_refused(self):
        with self.assertRaisesRegex(ValueError, "at least one state"):
            merge_rms_states([])


if __name__ == "__main__":
    unittest.main()
