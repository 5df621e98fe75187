"""Settings while they are read, one by one."""

import unittest

from ddp_ppo.config.reading import Found, Reading
from ddp_ppo.config.sections import OWN
from ddp_ppo.config.settings import GENERAL
from ddp_ppo.config.yaml_text import RefusedError


class ReadingTest(unittest.TestCase):
    def setUp(self):
        self.reading = Reading(GENERAL, OWN, {"a:B": "it is broken"})

    def take(self, name, value, **options):
        self.reading.take(name, lambda _: value, given=repr(value), place="here", **options)

    def test_the_last_value_of_a_setting_counts_by_any_of_its_names(self):
        self.take("clip_range", 0.1)
        self.take("ppo.clip_range", 1, is_inherited=True)
        self.assertEqual(self.reading.found, {"ppo.clip_range": Found(1.0, "here", "ppo.clip_range", True, True)})
        self.assertEqual(self.reading.errors, [])

    def test_every_mistake_is_kept_in_its_order(self):
        for name, value in (("gamma", 2), ("gama", 1), ("gamma", 3), ("learner", "a:B"), ("ppo", 3)):
            self.take(name, value)
        starts = ["gamma: got 2; ", "gama: unknown setting; did you mean gamma?", "gamma: got 3; "]
        starts += ["learner: got 'a:B'; allowed: ppo, disco or module:attribute (it is broken)", "ppo: a section of "]
        self.assertEqual(len(self.reading.errors), len(starts))
        for line, start in zip(self.reading.errors, starts, strict=True):
            self.assertTrue(line.startswith(f"here: {start}"), line)
        self.assertFalse(self.reading.found["gamma"].is_valid)

    def test_a_value_that_cannot_be_read_is_a_mistake_with_its_reason(self):
        def refuse(setting):
            raise RefusedError(f"no {setting.kind.name} today")

        self.reading.take("seed", refuse, given="what", place="there")
        self.assertEqual(self.reading.errors, ["there: seed: got what; allowed: a whole number >= 0 (no int today)"])


if __name__ == "__main__":
    unittest.main()
