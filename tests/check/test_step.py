"""Stepping one environment in the foreground: what is printed, and that breakpoints and errors are the user's own."""

import contextlib
import io
import subprocess
import sys
import unittest

import numpy as np

from ddp_ppo.check.step import Steps, step_through
from ddp_ppo.config.settings import Config
from ddp_ppo.errors import EnvError
from tests.support import fixtures
from tests.support.files import OwnFolderTestCase
from tests.support.process import FIXTURE, ROOT, FolderTestCase

FIXTURES = "tests.support.fixtures:"


def lines_of(env_id, env_kwargs=None, **steps):
    """What is printed of an environment of fixtures.py."""
    said = []
    step_through(Config(env_id=FIXTURES + env_id, env_kwargs=env_kwargs or {}), Steps(**steps), said.append)
    return "\n".join(said).splitlines()


class PrintTest(OwnFolderTestCase):
    def test_each_step_has_its_action_its_reward_its_observation_and_its_end(self):
        lines = lines_of("Count-v0", {"length": 2}, num_steps=3, actions="zero")
        self.assertEqual(
            lines,
            [
                *("reset(seed=0)", "  obs     obs[0] 0"),
                *("step 1: reward 1", "  action  0", "  obs     obs[0] 1"),
                *("step 2: reward 1, terminated", "  action  0", "  obs     obs[0] 2", "  reset   obs[0] 0"),
                *("step 3: reward 1", "  action  0", "  obs     obs[0] 1"),
            ],
        )

    def test_terms_of_the_reward_stand_behind_it(self):
        lines = lines_of("LateTerm-v0", num_steps=20, actions="zero")
        self.assertIn("step 20: reward 1 (reward_late 0.5)", lines)

    def test_actions_come_from_a_file_and_end_with_it(self):
        path = self.folder / "actions.csv"
        np.savetxt(path, [0.5, -0.25])
        lines = lines_of("Echo-v0", num_steps=9, actions=str(path))
        self.assertEqual(
            [line for line in lines if "action" in line], ["  action  action[0] 0.5", "  action  action[0] -0.25"]
        )

    def test_random_actions_follow_the_seed(self):
        first, again, other = (lines_of("Echo-v0", num_steps=3, seed=seed) for seed in (1, 1, 2))
        self.assertEqual(first, again)
        self.assertNotEqual(first[2:], other[2:])

    def test_an_error_shows_the_user_s_own_traceback(self):
        with contextlib.redirect_stderr(io.StringIO()) as err, self.assertRaisesRegex(EnvError, "boom-17"):
            lines_of("Misbehaving-v0", {"how": "raise", "at": 2, "number": fixtures.Watched.num_built + 2})
        self.assertRegex(err.getvalue(), r'(?s)Traceback.*fixtures.py", line \d+, in step.*ValueError: boom-17')


class BreakpointTest(FolderTestCase):
    def test_a_breakpoint_stops_in_the_environment_and_can_be_left(self):  # N-27
        words = ["step", "smoke", "env_id=tests.support.brought:Stopped-v0"]
        done = subprocess.run(
            [sys.executable, "-m", "ddp_ppo", *words],
            cwd=ROOT,
            input="p 6 * 7\nc\nq\n",
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("(Pdb) 42\n", done.stdout)
        self.assertIn("step 1: reward 0", done.stdout)

    def test_in_an_actor_it_ends_with_the_command_that_stops_there(self):  # N-27
        path = self.config("stopped", FIXTURE.replace("fixtures:Count-v0", "brought:Stopped-v0"))
        code, _, err = self.command_line("train", path, "num_actors=1")
        self.assertEqual(code, 1)
        self.assertIn(": a breakpoint: the debugger has no terminal here", err)
        self.assertEqual(err.splitlines()[-1], f"step through it: ddp-ppo step {path} num_actors=1")


if __name__ == "__main__":
    unittest.main()
