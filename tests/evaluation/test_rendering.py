"""Videos and stills read back; whatever goes wrong in drawing ends as one line and never ends the caller."""

import contextlib
import multiprocessing
import os
import shutil
import subprocess
import tempfile
import time
import unittest
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

import numpy as np
from PIL import Image

from ddp_ppo.evaluation import rendering
from ddp_ppo.evaluation.drawing import Scene
from ddp_ppo.evaluation.rendering import RenderError, film, has_display, show
from tests.support.drawing import cheetah, painted

XVFB = shutil.which("Xvfb")


class RenderingTestCase(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.gif, self.mp4 = self.folder / "a.gif", self.folder / "a.mp4"

    def reason(self, scene):
        """Why it was not drawn; no process and no file is left."""
        with self.assertRaises(RenderError) as caught:
            film(scene, self.gif)
        self.assertEqual(multiprocessing.active_children(), [])
        self.assertEqual(list(self.folder.iterdir()), [])
        self.assertNotIn("\n", str(caught.exception))
        return str(caught.exception)


class VideoTest(RenderingTestCase):
    def test_a_video_is_announced_once_its_first_picture_is_there(self):
        for how, expected in (("well", ["started"]), ("raise", ["started"]), ("nothing", [])):
            told = []
            with self.subTest(how), contextlib.suppress(RenderError):
                film(painted(how), self.gif, tell_started=lambda told=told: told.append("started"))
            self.assertEqual(told, expected)


class FailureTest(RenderingTestCase):
    def test_an_environment_that_raises(self):
        self.assertRegex(self.reason(painted("raise")), r"\AValueError: no paint-4711 \(in render, ")

    def test_a_process_that_dies(self):
        self.assertIn("its process ended with signal SIGABRT", self.reason(painted("abort")))

    def test_a_process_that_hangs(self):
        start = time.monotonic()
        with patch.multiple(rendering, START_SECONDS=10.0, _PICTURE_SECONDS=-0.3, _backends=lambda: ("egl",)):
            self.assertIn("no answer within 1 s", self.reason(painted("hang")))
        self.assertLess(time.monotonic() - start, 30)

    def test_an_environment_without_render(self):
        scene = painted(env_id="tests.support.drawing:Undrawn-v0")
        for has_mujoco in (False, True):  # which is not to blame
            scene.env_arguments["env_kwargs"]["has_mujoco"] = has_mujoco
            self.assertEqual(self.reason(scene), "Undrawn has no render(), so nothing draws it")

    def test_an_error_without_words_is_told_by_its_place(self):
        self.assertRegex(
            self.reason(painted("assert")),
            r"\AAssertionError: assert .* \(in render, .*tests/support/drawing\.py:\d+\)\Z",
        )

    def test_a_window_that_the_environment_never_opens(self):
        with self.assertRaisesRegex(RenderError, "no render mode human"):
            show(painted(env_id="tests.support.drawing:Undrawn-v0"))

    def test_a_picture_that_is_none(self):
        self.assertIn("render() gives no picture but NoneType", self.reason(painted("nothing")))

    def test_a_class_of_one_s_own(self):
        scene = painted(env_id="tests.support.drawing:Painter")
        self.assertIn("tests.support.drawing:Painter is not a Gymnasium environment", self.reason(scene))

    def test_an_environment_that_does_not_draw(self):
        scene = painted(env_id="tests.support.fixtures:Count-v0")
        self.assertEqual(
            self.reason(scene), "tests.support.fixtures:Count-v0 takes no render_mode, so nothing draws it"
        )

    def test_a_package_that_is_missing_is_named(self):
        if find_spec("pygame"):
            self.skipTest("pygame is installed")
        scene = Scene({"env_id": "CartPole-v1"}, 0, np.zeros(3, np.int64), np.ones(3))
        self.assertIn("pygame is not installed", self.reason(scene))

    def test_what_mujoco_cannot_draw_with_is_told_with_what_to_install(self):
        with patch.dict(os.environ, MUJOCO_GL="disable"):
            reason = self.reason(cheetah(2))
        self.assertTrue(reason.startswith("disable: "), reason)
        self.assertIn("apt-get install", reason)


class MujocoTest(RenderingTestCase):
    def film(self, num_steps):
        try:
            return film(cheetah(num_steps), self.gif)
        except RenderError as error:
            self.skipTest(f"MuJoCo draws nothing here: {error}")

    def test_the_robot_is_drawn_on_its_floor(self):
        made = self.film(4)
        self.assertIn(made.backend, ("egl", "osmesa", "glfw"))
        with Image.open(made.still) as still:
            pixels = np.asarray(still.convert("RGB")).astype(int)
        self.assertEqual(pixels.shape, (2 * 160, 3 * 240, 3))
        self.assertTrue((pixels[160:, 480:] == 255).all(), "five states, so no sixth picture")
        pixels = pixels[:160]
        red, _, blue = np.moveaxis(pixels, -1, 0)
        self.assertTrue((red - blue > 60).any(), "nothing has the colour of the robot")
        self.assertTrue((pixels[-20:].max(axis=-1) < 20).any() and (pixels[-20:].min(axis=-1) > 150).any(), "no floor")


@unittest.skipUnless(XVFB, "no Xvfb is installed")
class WindowTest(unittest.TestCase):
    def test_an_episode_is_shown_to_its_end(self):
        with subprocess.Popen([XVFB, "-displayfd", "1"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
            self.addCleanup(server.kill)
            number = server.stdout.readline().decode().strip()
            with patch.dict(os.environ, DISPLAY=f":{number}"):
                self.assertTrue(has_display())
                show(cheetah(3))
            server.kill()

    def test_a_display_that_is_not_there_is_a_reason(self):
        with patch.dict(os.environ, DISPLAY=":4711"), self.assertRaises(RenderError):
            show(cheetah(3))


if __name__ == "__main__":
    unittest.main()
