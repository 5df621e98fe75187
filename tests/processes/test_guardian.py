"""What an actor's environment has started ends with its learner, however that ends."""

import os
import subprocess
import time
import unittest

from ddp_ppo.processes.guardian import VARIABLE, Guardian, end_marked
from tests.support.process import LIMIT_SECONDS


def sleeper(mark):
    """A process with a mark, in a session of its own: no signal to a group reaches it."""
    environ = {**os.environ, VARIABLE: mark}
    return subprocess.Popen(["sleep", "1000"], env=environ, start_new_session=True)


class GuardianTest(unittest.TestCase):
    def test_what_has_the_mark_is_killed_and_nothing_else(self):
        guardian = Guardian()
        own, other = sleeper(f"{guardian.mark}.0.1."), sleeper("another")
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        guardian.close()
        self.assertEqual(own.wait(LIMIT_SECONDS), -9)
        self.assertIsNone(other.poll())

    def test_one_actor_is_told_from_the_others(self):
        guardian = Guardian()
        first, second = sleeper(f"{guardian.mark}.0.1."), sleeper(f"{guardian.mark}.0.11.")
        end_marked(f"{guardian.mark}.0.1.")
        self.assertEqual(first.wait(LIMIT_SECONDS), -9)
        self.assertIsNone(second.poll())
        guardian.close()
        self.assertEqual(second.wait(LIMIT_SECONDS), -9)

    def test_with_nothing_left_closing_takes_no_time_and_can_be_repeated(self):
        guardian = Guardian()
        started = time.monotonic()
        guardian.close()
        guardian.close()
        self.assertLess(time.monotonic() - started, LIMIT_SECONDS / 4)


if __name__ == "__main__":
    unittest.main()
