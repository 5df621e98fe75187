"""The rows of a run as columns."""

import math
import unittest

from ddp_ppo.training.history import History


class HistoryTest(unittest.TestCase):
    def test_a_column_has_a_value_for_each_row(self):
        history = History()
        history.add({"round": 1.0, "a": 0.5})
        history.add({"round": 2.0, "a": -0.5})
        found = history.arrays()
        self.assertEqual({name: column.tolist() for name, column in found.items()}, {"round": [1, 2], "a": [0.5, -0.5]})

    def test_what_a_row_lacks_is_nan_before_and_after(self):
        history = History()
        for row in ({"a": 1.0}, {"a": 2.0, "b": 3.0}, {"b": 4.0}):
            history.add(row)
        a, b = (history.arrays()[name].tolist() for name in ("a", "b"))
        self.assertEqual((a[:2], b[1:]), ([1.0, 2.0], [3.0, 4.0]))
        self.assertTrue(math.isnan(a[2]) and math.isnan(b[0]))

    def test_no_row_is_no_column(self):
        self.assertEqual(History().arrays(), {})


if __name__ == "__main__":
    unittest.main()
