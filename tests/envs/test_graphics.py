"""What an environment that draws is told on a machine without a display."""

import importlib.util
import os
import unittest
from unittest import mock

from ddp_ppo.envs.graphics import GraphicsError, explained
from ddp_ppo.errors import EnvError
from tests.support.process import FolderTestCase

NO_CONTEXT = "Camera-v0: cannot build the environment: FatalError: an OpenGL platform library has not been loaded"
VARIABLES = ("MUJOCO_GL", "DISPLAY", "WAYLAND_DISPLAY")


def explanation(text, **environ):
    """What becomes of an error, in an environment with these variables of VARIABLES alone."""
    kept = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    with mock.patch.dict(os.environ, kept | environ, clear=True):
        try:
            with explained():
                raise EnvError(text)
        except EnvError as error:
            return error


class ExplainedTest(unittest.TestCase):
    def test_a_choice_that_does_not_work_is_named_with_what_to_install(self):
        error = explanation("cannot import module 'arm': 'NoneType' has no attribute 'glGetError'", MUJOCO_GL="osmesa")
        self.assertIsInstance(error, GraphicsError)
        self.assertIsNone(error.works)
        self.assertIn("MUJOCO_GL=osmesa does not work here: apt-get install libegl1", str(error))

    def test_without_a_choice_it_is_tried_which_one_works(self):
        error = explanation(NO_CONTEXT)
        if error.works is None:  # this machine cannot draw at all
            self.assertIn("no display here: apt-get install libegl1 libgl1 (MUJOCO_GL=egl) or", str(error))
        else:
            self.assertIn(error.works, ("egl", "osmesa"))
            self.assertTrue(str(error).endswith(f"there is no display here: set MUJOCO_GL={error.works}"))

    def test_other_errors_and_machines_with_a_display_are_left_alone(self):
        self.assertNotIsInstance(explanation("Camera-v0: FileNotFoundError: legacy.xml"), GraphicsError)
        self.assertNotIsInstance(explanation(NO_CONTEXT, DISPLAY=":0"), GraphicsError)


class RestartTest(FolderTestCase):
    def test_a_training_that_draws_its_observations_starts_again_with_what_works(self):  # N-19
        works = explanation(NO_CONTEXT).works
        if works is None or importlib.util.find_spec("mujoco") is None:
            self.skipTest("nothing draws on this machine")
        words = ["num_actors=1", "envs_per_actor=1", "rollout_length=16", "total_env_steps=16", "eval_episodes=1"]
        words += ["env_id=tests.support.drawing:Camera-v0", "num_epochs=1", "hidden_sizes=[8]"]
        environ = dict.fromkeys(VARIABLES, "")
        code, out, err = self.command_line("train", "smoke", *words, environ=environ)
        self.assertEqual(code, 0, err)
        self.assertIn(f"set MUJOCO_GL={works}: starting again with it", err)
        self.assertIn("done: 1 rounds, 16 environment steps", out)


if __name__ == "__main__":
    unittest.main()
