"""Charts: scales worked out by hand, and what an SVG must hold."""

import json
import re
import unittest
from dataclasses import replace
from xml.etree import ElementTree

from ddp_ppo.report.charts import Axis, Chart, Series, chart_html, linear_ticks, number, short_number, thin


def parsed(chart):
    """The figure as a tree: it must be well-formed."""
    return ElementTree.fromstring(chart_html(chart))


def points(element):
    """[(x, y)] of a polyline or polygon."""
    return [tuple(map(float, point.split(","))) for point in element.get("points").split()]


class ScaleTest(unittest.TestCase):
    def test_ticks_are_round_values_within_the_range(self):
        self.assertEqual(linear_ticks(0, 300_000), [0, 100_000, 200_000, 300_000])
        self.assertEqual(linear_ticks(-3, 7), [-2, 0, 2, 4, 6])
        for value, expected in zip(linear_ticks(0.0, 0.017), [0.0, 0.005, 0.01, 0.015], strict=True):
            self.assertAlmostEqual(value, expected)

    def test_a_logarithmic_axis_has_equal_room_for_each_power_of_ten(self):
        axis = Axis(-2.0, 2.0, 100.0, 0.0, True)
        self.assertEqual([axis.pixel(value) for value in (0.01, 1.0, 100.0)], [100.0, 50.0, 0.0])
        self.assertEqual(axis.ticks(), [0.01, 0.1, 1.0, 10.0, 100.0])

    def test_a_logarithmic_axis_within_one_power_has_ticks_too(self):
        self.assertEqual(Axis(0.1, 0.9, 0.0, 1.0, True).ticks(), [2.0, 5.0])

    def test_figures_are_short_and_have_four_digits(self):
        values = (2961.94, 1000.0, 0.0046971, 985.0115, -28.663, 301056.0, 0.0, 2.04e-6)
        expected = ["2,961.9", "1,000", "0.004697", "985", "-28.66", "301,056", "0", "2.040e-06"]
        self.assertEqual([number(value) for value in values], expected)
        self.assertEqual([short_number(v) for v in (3e5, 1.5e6, 2000.0, 0.02)], ["300k", "1.5M", "2000", "0.02"])


class ThinTest(unittest.TestCase):
    def test_a_short_curve_stays_whole(self):
        self.assertEqual(thin([3.0, 1.0, 2.0]), [0, 1, 2])

    def test_a_long_one_keeps_its_ends_and_every_spike(self):
        y = [0.0] * 10_000
        y[1234], y[7777] = 9.0, -9.0
        kept = thin(y, 50)
        self.assertLessEqual(len(kept), 102)
        self.assertLessEqual({0, 1234, 7777, 9999}, set(kept))
        self.assertEqual(kept, sorted(kept))


class ChartTest(unittest.TestCase):
    def test_a_curve_goes_from_corner_to_corner_of_its_range(self):
        (line,) = parsed(Chart("a", [Series("b", [0, 50, 100], [0.0, 1.0, 2.0])])).iter("polyline")
        (x0, y0), (x1, y1), (x2, y2) = points(line)
        self.assertEqual((x0, x2), (44.0, 412.0))  # the plot's edges
        self.assertEqual((x1, y1), ((x0 + x2) / 2, 88.0))  # half way between 8 and 168
        self.assertGreater(y0, y1)
        self.assertEqual(y0 - y1, y1 - y2)

    def test_the_points_for_the_script_are_the_values_themselves(self):
        script = parsed(Chart("a", [Series("b", [10, 20], [0.1, 1 / 3])])).find("script").text
        self.assertEqual(json.loads(script)["series"], [[[10, 20], [0.1, 0.3333333]]])

    def test_the_legend_shows_the_last_value(self):
        self.assertIn("training <b>2,961.9</b>", chart_html(Chart("a", [Series("training", [1, 2], [1.0, 2961.9])])))

    def test_words_are_escaped(self):
        chart = Chart("a <b> & c", [Series("<i>", [1, 2], [1.0, 2.0])], marks=[(1.5, "<target>")], note="<note>")
        self.assertEqual(parsed(chart).find("figcaption/b").text, "a <b> & c")

    def test_points_far_outside_do_not_stretch_the_axis_and_are_counted(self):
        tree = parsed(Chart("a", [Series("b", range(100), [*(i % 10 for i in range(99)), 1e6])]))
        (line,) = tree.iter("polyline")
        usual = [y for _, y in points(line)[:-1]]
        self.assertGreater(max(usual) - min(usual), 120.0)
        self.assertIn("1 far outside", ElementTree.tostring(tree, "unicode"))

    def test_a_constant_curve_and_a_single_point_are_drawn(self):
        self.assertEqual(len(list(parsed(Chart("a", [Series("b", [1, 2], [5.0, 5.0])])).iter("polyline"))), 1)
        self.assertEqual(len(list(parsed(Chart("a", [Series("b", [1], [5.0])])).iter("circle"))), 1)

    def test_a_logarithmic_chart_leaves_out_what_is_not_positive(self):
        chart = Chart("a", [Series("b", [1, 2, 3], [1.0, 0.0, 100.0])], is_log=True)
        self.assertIn("Logarithmic axis.", chart_html(chart))
        self.assertNotIn("Logarithmic", chart_html(replace(chart, is_log=False)))
        (line,) = parsed(chart).iter("polyline")
        self.assertEqual(len(points(line)), 2)

    def test_areas_stand_on_each_other_and_fill_the_chart(self):
        chart = Chart("a", [Series("b", [0, 1], [30.0, 60.0]), Series("c", [0, 1], [70.0, 40.0])], is_stacked=True)
        first, second = (points(polygon) for polygon in parsed(chart).iter("polygon"))
        self.assertEqual(first[:2], [(44.0, 120.0), (412.0, 72.0)])  # 30 % and 60 % of 160 pixels above 168
        self.assertEqual(second, [(44.0, 8.0), (412.0, 8.0), (412.0, 72.0), (44.0, 120.0)])

    def test_a_band_surrounds_its_curve(self):
        tree = parsed(Chart("a", [Series("b", [0, 1], [1.0, 2.0], [0.0, 1.0], [2.0, 3.0])]))
        (band,), (line,) = tree.iter("polygon"), tree.iter("polyline")
        high, low = points(band)[:2], points(band)[:1:-1]
        for (_, top), (_, middle), (_, bottom) in zip(high, points(line), low, strict=True):
            self.assertLess(top, middle)
            self.assertLess(middle, bottom)

    def test_a_value_to_reach_is_a_line_unless_it_is_out_of_reach(self):
        near = Chart("a", [Series("b", [0, 1], [0.0, 10.0])], marks=[(12.0, "solved")])
        far = Chart("a", [Series("b", [0, 1], [0.0, 10.0])], marks=[(1e9, "solved")])
        self.assertEqual([len(re.findall('class="mark"', chart_html(chart))) for chart in (near, far)], [1, 0])

    def test_an_axis_starts_where_it_is_told_to(self):
        for start, expected in ((0.0, "191.2"), (8.0, "44.0")):  # 8 of 0 .. 20 and of 8 .. 20, over 44 to 412 pixels
            (line,) = parsed(Chart("a", [Series("b", [8, 20], [1.0, 2.0])], x_start=start)).iter("polyline")
            self.assertTrue(line.get("points").startswith(f"{expected},"), line.get("points"))

    def test_nothing_to_draw_is_no_chart(self):
        for series in ([], [Series("b", [], [])]):
            charts = (Chart("a", series), Chart("a", series, is_stacked=True))
            self.assertEqual([chart_html(chart) for chart in charts], ["", ""])


if __name__ == "__main__":
    unittest.main()
