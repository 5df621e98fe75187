"""Tables are aligned, entries stay within the width and lose no word."""

import os
import unittest
from unittest import mock

from ddp_ppo.text import WIDTH, and_more, duration, entry, listed, table


class WordsTest(unittest.TestCase):
    def test_a_time_has_the_units_that_fit_its_size(self):
        times = {
            0: "0 s",
            0.04: "0 s",
            9: "9 s",
            12.34: "12.3 s",
            59.94: "59.9 s",
            59.96: "1 min 00 s",
            245: "4 min 05 s",
        }
        times |= {3599.4: "59 min 59 s", 3599.6: "1 h 00 min", 7800: "2 h 10 min", 90_061: "25 h 01 min"}
        self.assertEqual({seconds: duration(seconds) for seconds in times}, times)

    def test_a_long_list_is_cut_and_says_so(self):
        self.assertEqual(listed(["a", "b", "c"], 3), "a, b, c")
        self.assertEqual(listed(["a", "b", "c"], 2), "a, b and 1 more")
        self.assertEqual(listed([], 2), "")
        self.assertEqual((and_more(range(2000), 5), and_more("ab", 2)), ("and 1,995 more", ""))


class TextTest(unittest.TestCase):
    def test_names_are_to_the_left_and_figures_to_the_right(self):
        self.assertEqual(
            table([["run", "IQM"], ["a-long-one", "3.5"], ["b", "12"]]),
            "run         IQM\na-long-one  3.5\nb            12",
        )

    def test_no_line_ends_with_spaces(self):
        self.assertEqual(table([["a", "name"], ["b", "c"]], num_left=2), "a  name\nb  c")

    def test_columns_without_room_follow_below_behind_the_names(self):
        rows = [["run", "one", "two", "a long one"], ["a", "1", "2", "3"]]
        whole = "run  one  two  a long one\na      1    2           3"
        for room, expected in (
            ("25", whole),
            ("24", "run  one  two\na      1    2\n\nrun  a long one\na             3"),
            ("8", "run  one\na      1\n\nrun  two\na      2\n\nrun  a long one\na             3"),
        ):
            with self.subTest(room), mock.patch.dict(os.environ, COLUMNS=room):
                self.assertEqual(table(rows), expected)
                self.assertEqual(table([["a"], ["b"]]), "a\nb")

    def test_a_short_entry_is_one_line(self):
        self.assertEqual(entry("note", "all is well"), "note           all is well")

    def test_a_long_entry_goes_on_below_its_words(self):
        words = " ".join(f"word{i}" for i in range(60))
        lines = entry("note", words).splitlines()
        self.assertLessEqual(max(map(len, lines)), WIDTH)
        self.assertEqual({line[:15].strip() for line in lines[1:]}, {""})
        self.assertEqual(" ".join(line[15:] for line in lines), words)

    def test_line_breaks_stay_and_a_word_that_is_too_long_is_kept_whole(self):
        path = "/x" * 100
        self.assertEqual(entry("a", f"one\n{path}", name_width=3), f"a  one\n   {path}")


if __name__ == "__main__":
    unittest.main()
