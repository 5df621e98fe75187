"""How rules become events: once when one begins to hold, again only after it has ended, and less and less often."""

import math
import unittest

from ddp_ppo.runs.anomalies import Watch, overlap_at_reset
from tests.support.runs import HEALTHY, SETTLED

CLIPPED = {"train/clip_fraction": 0.8}  # an event after 5 looks
PARTED = {"eval/return_mean": 20.0}  # after 2


def events(rows, watch=None):
    """The rules that speak over these rounds (changes of a healthy one), in their order."""
    watch = watch or Watch()
    return [event.rule for changes in rows for event in watch.update(HEALTHY | changes)]


def after_healthy(rows):
    """The rules that speak over these rounds after a settled healthy run."""
    watch = Watch()
    assert not events([{}] * SETTLED, watch)
    return events(rows, watch)


class WatchTest(unittest.TestCase):
    def test_an_event_says_what_was_seen_and_what_to_check(self):
        watch = Watch()
        events([{}] * SETTLED, watch)
        (event,) = watch.update(HEALTHY | {"train/approx_kl": 0.4})
        self.assertIn("0.4", event.seen)
        self.assertIn("0.01", event.seen)
        self.assertTrue(event.advice)

    def test_a_fault_that_has_ended_may_be_told_again(self):
        self.assertEqual(after_healthy([*[CLIPPED] * 10, *[{}] * 10, *[CLIPPED] * 10]), ["clip_fraction"] * 2)
        self.assertEqual(after_healthy([*[CLIPPED] * 10, *[{}] * 3, *[CLIPPED] * 10]), ["clip_fraction"])

    def test_rounds_that_do_not_report_a_metric_neither_hold_nor_end_its_rule(self):
        gap = [{}] * 99
        self.assertEqual(after_healthy([PARTED, *gap, PARTED]), ["replay_gap"])
        self.assertEqual(after_healthy([PARTED, *gap, PARTED, *gap, PARTED, *gap, PARTED]), ["replay_gap"])
        unknown = {"train/clip_fraction": math.nan}
        self.assertEqual(after_healthy([CLIPPED, unknown] * 5), ["clip_fraction"])

    def test_a_rule_that_goes_on_and_off_speaks_less_and_less_often(self):
        # Silent for 10, 20, 40, ... looks after an event: a jump in every 15th round is told in rounds 1, 16, 46, ...
        rows = ([{"train/approx_kl": 0.5}] + [{}] * 14) * 40
        watch = Watch()
        events([{}] * SETTLED, watch)
        told = [number for number, row in enumerate(rows, 1) if events([row], watch)]
        self.assertEqual(told, [1, 16, 46, 91, 181, 346])

    def test_metrics_that_a_learner_does_not_have_are_silent(self):
        row = {name: value for name, value in HEALTHY.items() if not name.startswith("train/")}
        watch = Watch()
        self.assertEqual([event for _ in range(2 * SETTLED) for event in watch.update(row)], [])

    def test_bodies_that_overlap_are_an_event_with_their_names(self):
        self.assertEqual(overlap_at_reset("a in b")[:2], ("overlap_at_reset", "a in b"))


if __name__ == "__main__":
    unittest.main()
