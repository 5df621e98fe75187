"""Videos and stills read back; whatever goes wrong in drawing ends as one line and never ends the caller."""

import contextlib
import multiprocessing
import os
import shutil
import subprocess
import tempfile
import time
import unittest
import warnings
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

import numpy as np
from PIL import Image, ImageSequence

from ddp_ppo.evaluation import drawing, rendering
from ddp_ppo.evaluation.drawing import Film, Scene
from ddp_ppo.evaluation.rendering import RenderError, film, has_display, show
from tests.support.drawing import GREY_OF_A_STEP, HEIGHT, WIDTH

NUM_STEPS = 30
XVFB = shutil.which("Xvfb")


def painted(how="well", env_id="tests.support.drawing:Painter-v0", num_steps=NUM_STEPS):
    """A scene in which action and reward of step t are t / 100."""
    act = np.arange(1, num_steps + 1, dtype=np.float32)[:, None] / 100
    env_kwargs = {} if how == "well" else {"how": how}
    return Scene({"env_id": env_id, "env_kwargs": env_kwargs}, 7, act, act[:, 0].astype(np.float64))


def cheetah(num_steps):
    """HalfCheetah that does nothing; its rewards are not known."""
    act = np.zeros((num_steps, 6), np.float32)
    return Scene({"env_id": "HalfCheetah-v5", "env_kwargs": {}}, 3, act, np.zeros(num_steps))


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
    def test_a_gif_shows_every_state_that_its_rate_allows_for_the_true_time(self):
        made = film(painted(), self.gif)  # 31 states at 50 a second, at most 25 of them shown
        self.assertEqual(made, Film(self.gif, self.folder / "a.png", "", 16, 25.0, 0.0))
        with Image.open(self.gif) as video:
            frames = [
                (frame.info["duration"], frame.convert("RGB").getpixel((1, 1)))
                for frame in ImageSequence.Iterator(video)
            ]
        self.assertEqual([grey[0] for _, grey in frames], [2 * GREY_OF_A_STEP * number for number in range(16)])
        self.assertEqual(sum(duration for duration, _ in frames), 16 * 40)

    def test_times_that_are_no_hundredths_of_a_second_add_up_to_the_true_time(self):
        durations = drawing.frame_durations(67, 67 / 3)
        self.assertEqual(set(durations), {40, 50})
        self.assertEqual(sum(durations), 3000)

    def test_the_still_has_two_rows_of_three_states_from_first_to_last(self):
        made = film(painted(), self.gif, max_fps=50.0)
        with Image.open(made.still) as still:
            pixels = np.asarray(still.convert("RGB"))
        self.assertEqual(pixels.shape, (2 * HEIGHT // 2, 3 * WIDTH // 2, 3))
        shown = GREY_OF_A_STEP * np.array([[0, 6, 12], [18, 24, 30]])
        np.testing.assert_array_equal(pixels[:: HEIGHT // 2, :: WIDTH // 2, 0], shown)

    @unittest.skipUnless(find_spec("imageio_ffmpeg"), "imageio-ffmpeg is not installed")
    def test_an_mp4_shows_every_state(self):
        import imageio_ffmpeg

        made = film(painted(), self.mp4)
        self.assertEqual((made.num_pictures, made.fps), (NUM_STEPS + 1, 50.0))
        with warnings.catch_warnings(), contextlib.closing(imageio_ffmpeg.read_frames(str(self.mp4))) as reader:
            warnings.simplefilter("ignore", ResourceWarning)  # of imageio-ffmpeg's own pipes
            about = next(reader)
            greys = [np.frombuffer(frame, np.uint8).mean() for frame in reader]
        self.assertEqual((about["size"], about["fps"]), ((WIDTH, HEIGHT), 50.0))
        self.assertEqual(len(greys), NUM_STEPS + 1)
        np.testing.assert_allclose(greys, [GREY_OF_A_STEP * step for step in range(NUM_STEPS + 1)], atol=6)

    def test_a_video_is_announced_once_its_first_picture_is_there(self):
        for how, expected in (("well", ["started"]), ("raise", ["started"]), ("nothing", [])):
            told = []
            with self.subTest(how), contextlib.suppress(RenderError):
                film(painted(how), self.gif, tell_started=lambda told=told: told.append("started"))
            self.assertEqual(told, expected)

    def test_an_asked_for_rate_is_not_exceeded(self):
        made = film(painted(), self.gif, max_fps=20.0)
        self.assertEqual((made.num_pictures, made.fps), (11, 50 / 3))

    def test_choices_of_a_grid_are_drawn_as_the_actions_that_they_stand_for(self):
        act = np.tile([0, 1], 5)
        env = {"env_id": "tests.support.drawing:Painter-v0", "discretize_actions": 2}
        self.assertEqual(film(Scene(env, 7, act, np.where(act == 0, -1.0, 1.0)), self.gif).drift, 0.0)

    def test_a_task_that_its_seed_does_not_repeat_is_found_out(self):
        self.assertGreater(film(painted(env_id="tests.support.drawing:Moody-v0"), self.gif).drift, 1.0)


class FailureTest(RenderingTestCase):
    def test_an_environment_that_raises(self):
        self.assertEqual(self.reason(painted("raise")), "ValueError: no paint-4711")

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
            self.reason(painted("assert")), r"\AAssertionError in render \(.*tests/support/drawing\.py:\d+\)\Z"
        )

    def test_a_window_that_the_environment_never_opens(self):
        with self.assertRaisesRegex(RenderError, "no render mode human"):
            show(painted(env_id="tests.support.drawing:Undrawn-v0"))

    def test_a_picture_that_is_none(self):
        self.assertIn("render() gives no picture but NoneType", self.reason(painted("nothing")))

    def test_a_class_of_one_s_own(self):
        scene = painted(env_id="tests.support.drawing:Painter")
        self.assertIn("tests.support.drawing:Painter is no Gymnasium environment", self.reason(scene))

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
