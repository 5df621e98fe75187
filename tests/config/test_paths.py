"""Paths as a person writes them."""

import os
import unittest

from ddp_ppo.config.paths import expand_path
from ddp_ppo.config.yaml_text import RefusedError

ENVIRON = {"A": "/data", "B_2": "x y"}


class ExpandTest(unittest.TestCase):
    def test_home_and_variables_are_replaced(self):
        for text, expected in (
            ("$A/runs", "/data/runs"),
            ("${A}s/$B_2", "/datas/x y"),
            ("~/runs", os.path.join(os.path.expanduser("~"), "runs")),
            ("a~b/~", "a~b/~"),
            ("plain/../path", "plain/../path"),
            ("costs 5$", "costs 5$"),
            ("$-x", "$-x"),
            ("", ""),
        ):
            with self.subTest(text):
                self.assertEqual(expand_path(text, ENVIRON), expected)

    def test_a_variable_that_is_not_set_is_refused_by_name(self):
        for text, name in (("$C/runs", "$C"), ("${A}/${A B}", "${A B}"), ("${}", "${}")):
            with self.subTest(text), self.assertRaises(RefusedError) as caught:
                expand_path(text, ENVIRON)
            self.assertEqual(str(caught.exception), f"the environment variable {name} is not set")


if __name__ == "__main__":
    unittest.main()
