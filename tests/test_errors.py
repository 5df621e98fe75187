"""What is said of an exception, whatever it does when it is asked."""

import inspect
import unittest

import numpy as np

from ddp_ppo.errors import EnvError, blamed, describe_cause


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no words")


def fail(array):
    return array.max()  # raised inside NumPy


class CauseTest(unittest.TestCase):
    def test_a_foreign_exception_is_named_and_an_env_error_speaks_for_itself(self):
        self.assertEqual(describe_cause(KeyError("no\nmap")), r"KeyError: 'no\nmap'")
        self.assertEqual(describe_cause(ValueError("two\n  lines")), "ValueError: two lines")
        self.assertEqual(describe_cause(EnvError("no map")), "no map")
        self.assertEqual(describe_cause(SystemExit()), "SystemExit")

    def test_an_exception_without_a_text_does_not_replace_the_cause(self):
        self.assertEqual(describe_cause(Mute()), "Mute: (its text cannot be shown: RuntimeError)")

    def test_what_utf_8_cannot_hold_is_escaped(self):
        self.assertEqual(describe_cause(ValueError("\u00e4 \udcff")), "ValueError: \u00e4 \\udcff")


class BlameTest(unittest.TestCase):
    def test_the_innermost_line_of_the_user_s_code_is_named(self):  # S-2
        line = inspect.getsourcelines(fail)[1]
        with self.assertRaises(EnvError) as caught, blamed("no. 3"):
            fail(np.array([], np.float32))
        self.assertEqual(
            str(caught.exception),
            "no. 3: ValueError: zero-size array to reduction operation maximum which has no identity "
            f"(in fail, {__file__}:{line + 1})",
        )

    def test_an_assertion_without_a_text_shows_its_line(self):  # S-2
        place = r"\(in test_an_.*test_errors.py:\d+\)$"
        with self.assertRaisesRegex(EnvError, rf"AssertionError: assert not self {place}"), blamed("no. 3"):
            assert not self

    def test_an_exit_is_the_environment_s_error_and_an_interrupt_is_not(self):
        with self.assertRaisesRegex(EnvError, r"^no. 3: SystemExit: 7 \(in .*\)$"), blamed("no. 3"):
            raise SystemExit(7)
        with self.assertRaises(KeyboardInterrupt), blamed("no. 3"):
            raise KeyboardInterrupt


if __name__ == "__main__":
    unittest.main()
