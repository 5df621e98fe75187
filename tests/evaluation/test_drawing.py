"""Videos and stills read back."""

import contextlib
import unittest
import warnings
from importlib.util import find_spec

import numpy as np
from PIL import Image, ImageSequence

from ddp_ppo.evaluation.drawing import Film, NoPictureError, Scene, film_scene, frame_durations
from tests.support.drawing import GREY_OF_A_STEP, HEIGHT, NUM_STEPS, WIDTH, painted
from tests.support.files import OwnFolderTestCase


class VideoTest(OwnFolderTestCase):
    def film(self, scene, name="a.gif", max_fps=None):
        return film_scene(scene, self.folder / name, max_fps, tell_started=lambda: None)

    def test_a_gif_shows_every_state_that_its_rate_allows_for_the_true_time(self):
        made = self.film(painted())  # 31 states at 50 a second, at most 25 of them shown
        self.assertEqual(made, Film(self.folder / "a.gif", self.folder / "a.png", "", 16, 25.0, 0.0))
        with Image.open(self.folder / "a.gif") as video:
            frames = [
                (frame.info["duration"], frame.convert("RGB").getpixel((1, 1)))
                for frame in ImageSequence.Iterator(video)
            ]
        self.assertEqual([grey[0] for _, grey in frames], [2 * GREY_OF_A_STEP * number for number in range(16)])
        self.assertEqual(sum(duration for duration, _ in frames), 16 * 40)

    def test_times_that_are_no_hundredths_of_a_second_add_up_to_the_true_time(self):
        durations = frame_durations(67, 67 / 3)
        self.assertEqual(set(durations), {40, 50})
        self.assertEqual(sum(durations), 3000)

    def test_the_still_has_two_rows_of_three_states_from_first_to_last(self):
        made = self.film(painted(), max_fps=50.0)
        with Image.open(made.still) as still:
            pixels = np.asarray(still.convert("RGB"))
        self.assertEqual(pixels.shape, (2 * HEIGHT // 2, 3 * WIDTH // 2, 3))
        shown = GREY_OF_A_STEP * np.array([[0, 6, 12], [18, 24, 30]])
        np.testing.assert_array_equal(pixels[:: HEIGHT // 2, :: WIDTH // 2, 0], shown)

    @unittest.skipUnless(find_spec("imageio_ffmpeg"), "imageio-ffmpeg is not installed")
    def test_an_mp4_shows_every_state(self):
        import imageio_ffmpeg

        made = self.film(painted(), "a.mp4")
        self.assertEqual((made.num_pictures, made.fps), (NUM_STEPS + 1, 50.0))
        with (
            warnings.catch_warnings(),
            contextlib.closing(imageio_ffmpeg.read_frames(str(self.folder / "a.mp4"))) as reader,
        ):
            warnings.simplefilter("ignore", ResourceWarning)  # of imageio-ffmpeg's own pipes
            about = next(reader)
            greys = [np.frombuffer(frame, np.uint8).mean() for frame in reader]
        self.assertEqual((about["size"], about["fps"]), ((WIDTH, HEIGHT), 50.0))
        self.assertEqual(len(greys), NUM_STEPS + 1)
        np.testing.assert_allclose(greys, [GREY_OF_A_STEP * step for step in range(NUM_STEPS + 1)], atol=6)

    def test_an_asked_for_rate_is_not_exceeded(self):
        made = self.film(painted(), max_fps=20.0)
        self.assertEqual((made.num_pictures, made.fps), (11, 50 / 3))

    def test_choices_of_a_grid_are_drawn_as_the_actions_that_they_stand_for(self):
        act = np.tile([0, 1], 5)
        env = {"env_id": "tests.support.drawing:Painter-v0", "discretize_actions": 2}
        self.assertEqual(self.film(Scene(env, 7, act, np.where(act == 0, -1.0, 1.0))).drift, 0.0)

    def test_a_task_that_its_seed_does_not_repeat_is_found_out(self):
        self.assertGreater(self.film(painted(env_id="tests.support.drawing:Moody-v0")).drift, 1.0)

    def test_a_second_at_thirty_pictures_has_no_rounding_left(self):
        self.assertEqual(sum(frame_durations(30, 30.0)), 1000)

    def test_what_draws_nothing_is_told_by_the_environment_itself(self):
        for how, words in {"nothing": "gives no picture but NoneType", "raise": "no paint-4711"}.items():
            expected = NoPictureError if how == "nothing" else ValueError
            with self.subTest(how), self.assertRaisesRegex(expected, words):
                self.film(painted(how))


if __name__ == "__main__":
    unittest.main()
