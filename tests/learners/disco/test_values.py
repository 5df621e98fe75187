"""Two-hot values, Retrace and normalisers against values worked out by hand and against the reference."""

import unittest

import torch

from ddp_ppo.learners.disco.values import (
    MAX_BIN,
    Moments,
    estimate,
    fresh_moments,
    from_two_hot,
    mean_and_std,
    normalize,
    retrace,
    scalar_value,
    signed_hyperbolic,
    signed_log,
    signed_parabolic,
    two_hot,
    updated,
)
from tests.support.disco_golden import CPU, STATS, golden, needs_data, of_max, rule_cases

torch.set_num_threads(1)


def column(*values):
    """[T, 1]."""
    return torch.tensor(values)[:, None]


class SquashingTest(unittest.TestCase):
    def test_values_by_hand(self):
        x = torch.tensor([-3.0, 0.0, 3.0, 99.0])
        torch.testing.assert_close(signed_hyperbolic(x), torch.tensor([-1.003, 0.0, 1.003, 9.099]))
        torch.testing.assert_close(signed_log(torch.tensor([-torch.e + 1.0, 0.0])), torch.tensor([-1.0, 0.0]))

    def test_parabolic_is_the_inverse(self):
        x = torch.tensor([-90_000.0, -250.0, -0.5, 0.0, 0.001, 1.0, 3.7, 1000.0, 90_000.0], dtype=torch.float64)
        torch.testing.assert_close(signed_parabolic(signed_hyperbolic(x)), x)

    @needs_data
    def test_reference(self):
        units = golden("units")
        for found, name in (
            (signed_log(units["x2"]), "sign_log(x2)"),
            (signed_hyperbolic(units["x2"]), "sign_hyp(x2)"),
            (signed_hyperbolic(units["scalar"]), "signed_hyperbolic(scalar)"),
            (
                signed_parabolic(units["signed_hyperbolic(scalar)"]),
                "signed_parabolic(signed_hyperbolic(scalar))",
            ),
        ):
            with self.subTest(name):
                self.assertLess(of_max(found, units[name]), 1e-5)


class TwoHotTest(unittest.TestCase):
    def test_mass_is_split_between_the_neighbours(self):
        p = two_hot(torch.tensor(7.25))
        self.assertEqual(p.nonzero().flatten().tolist(), [MAX_BIN + 7, MAX_BIN + 8])
        torch.testing.assert_close(p[MAX_BIN + 7 : MAX_BIN + 9], torch.tensor([0.75, 0.25]), atol=1e-5, rtol=0)

    def test_whole_number_has_one_bin_and_what_is_outside_the_last_one(self):
        for x, place in ((4.0, 304), (-300.0, 0), (300.0, 600), (1e6, 600), (-1e6, 0)):
            self.assertEqual(two_hot(torch.tensor(x)).nonzero().tolist(), [[place]])

    def test_mean_is_the_value(self):
        x = torch.tensor([-299.5, -0.25, 0.0, 17.3, 300.0])
        torch.testing.assert_close(from_two_hot(two_hot(x)), x, atol=2e-5, rtol=1e-6)

    def test_scalar_value_is_in_units_of_reward(self):
        logits = two_hot(signed_hyperbolic(torch.tensor([-42.0, 3.0]))).log().clamp(min=-1e9)
        torch.testing.assert_close(scalar_value(logits), torch.tensor([-42.0, 3.0]), atol=1e-3, rtol=0)

    @needs_data
    def test_reference(self):
        units = golden("units")
        self.assertLess(of_max(two_hot(units["squashed"]), units["two_hot(squashed)"]), 1e-6)
        self.assertLess(of_max(from_two_hot(units["two_hot(squashed)"]), units["from_two_hot(two_hot)"]), 1e-6)


class RetraceTest(unittest.TestCase):
    def targets(self, reward, discount, q, v, trace):
        return retrace(
            column(*reward), column(*discount), target_q=column(*q), target_v=column(*v), trace=column(*trace)
        )[:, 0].tolist()

    def test_without_trace_each_target_bootstraps_at_once(self):
        found = self.targets([1.0, 2.0], [0.5, 0.5], [7.0, 7.0], [9.0, 4.0, 6.0], [0.0, 0.0])
        self.assertEqual(found, [1.0 + 0.5 * 4.0, 2.0 + 0.5 * 6.0])

    def test_correction_is_that_of_the_next_step(self):
        # G_1 = 2 + 0.5 * 6 = 5; G_0 = 1 + 0.5 * (4 + 0.25 * (5 - 3)); the trace and the q of step 0 play no part.
        found = self.targets([1.0, 2.0], [0.5, 0.5], [100.0, 3.0], [9.0, 4.0, 6.0], [100.0, 0.25])
        self.assertEqual(found, [3.25, 5.0])

    def test_nothing_flows_back_over_an_end(self):
        found = self.targets([1.0, 2.0], [0.0, 0.5], [7.0, 3.0], [9.0, 4.0, 6.0], [1.0, 1.0])
        self.assertEqual(found, [1.0, 5.0])


class MomentsTest(unittest.TestCase):
    def test_first_data_count_in_full(self):
        moments = updated(fresh_moments(1, CPU), torch.tensor([3.0]), torch.tensor([13.0]))  # variance 13 - 9
        mean, std = mean_and_std(moments)
        torch.testing.assert_close(mean, torch.tensor([3.0]))
        torch.testing.assert_close(std, torch.tensor([2.0]))

    def test_constant_data_does_not_divide_by_zero(self):
        mean, std = mean_and_std(updated(fresh_moments(1, CPU), torch.tensor([3.0]), torch.tensor([9.0])))
        self.assertTrue(0.0 < float(std) < 0.01 and abs(float(mean) - 3.0) < 1e-5)

    @needs_data
    def test_reference(self):
        units = golden("units")
        moments = Moments(*(stat[0] for stat in fresh_moments(1, CPU)))
        for i, x in enumerate(units["ema/values"]):
            moments = updated(moments, x.mean(), x.square().mean())
            for stat, found in zip(STATS, moments, strict=True):
                self.assertAlmostEqual(float(found), float(units[f"ema/{i}/{stat}"]), delta=1e-6)
            mean, std = mean_and_std(moments)
            self.assertLess(of_max((x - mean) / std, units[f"ema/{i}/normalized"]), 1e-4)
            self.assertLess(of_max(x / std, units[f"ema/{i}/normalized_no_mean"]), 1e-4)


@needs_data
class EstimateTest(unittest.TestCase):
    def test_values_are_the_reference_s(self):  # C32
        for name, case in rule_cases():
            values = estimate(case.heads, case.batch, gamma=0.997, retrace_lambda=0.95)
            for field, expected in case.values()._asdict().items():
                with self.subTest(name, field=field):
                    self.assertLess(of_max(getattr(values, field), expected), 1e-4)

    def test_normalised_advantages_are_the_reference_s(self):  # C32
        for name, case in rule_cases():
            moments = case.state_of("state_out").moments
            for field, expected in case.normalized()._asdict().items():
                with self.subTest(name, field=field):
                    self.assertLess(of_max(getattr(normalize(case.values(), moments), field), expected), 1e-4)
            with self.subTest(name, field="q_td"):
                found = case["value/q_td"] / mean_and_std(moments)[1][1]
                self.assertLess(of_max(found, case["value/normalized_q_td"]), 1e-4)


if __name__ == "__main__":
    unittest.main()
