"""Parts stand in the row one behind the other; a view selects the columns of some of them."""

import unittest

import numpy as np

from ddp_ppo.observations.layout import ObsLayout, columns_of, image_layout, joined, view_size
from ddp_ppo.protocols import EnvSpec

PARTS = (("camera", "image", (2, 2, 1), 1 / 255), ("gait", "one_hot", (3,), 1.0), ("joints", "vector", (2,), 1.0))
LAYOUT = ObsLayout.of(PARTS)


class LayoutTest(unittest.TestCase):
    def test_parts_stand_one_behind_the_other(self):
        self.assertEqual([(part.name, part.start, part.stop) for part in LAYOUT.parts], [
            ("camera", 0, 4), ("gait", 4, 7), ("joints", 7, 9),
        ])  # fmt: skip
        self.assertEqual(LAYOUT.size, 9)

    def test_an_env_spec_without_parts_is_one_part(self):
        (vector,) = EnvSpec("A", 5, "discrete", 2).layout.parts
        self.assertEqual((vector.name, vector.kind, vector.shape, vector.scale), ("", "vector", (5,), 1.0))
        (image,) = EnvSpec("A", 12, "discrete", 2, image=(2, 2, 3), obs_scale=0.5).layout.parts
        self.assertEqual((image.kind, image.shape, image.scale), ("image", (2, 2, 3), 0.5))

    def test_an_env_spec_with_parts_has_their_layout(self):
        self.assertEqual(EnvSpec("A", 9, "discrete", 2, obs_parts=PARTS).layout, LAYOUT)


class ImageTest(unittest.TestCase):
    def test_squares_and_few_channels_tell_which_side_is_which(self):  # N-08
        for shape, layout in {
            (84, 84, 3): "channels_last",
            (4, 84, 84): "channels_first",
            (7, 7, 20): "channels_last",
            (20, 7, 7): "channels_first",
            (96, 128, 3): "channels_last",
            (1, 28, 30): "channels_first",
            (4, 4, 3): "channels_last",
            (5, 5, 5): "",
            (16, 60, 80): "",
            (3, 64, 3): "",
            (64, 32, 64): "",
            (4, 4, 20): "",  # a square of 20 channels, or 4 channels of 4 x 20
        }.items():
            with self.subTest(shape):
                self.assertEqual(image_layout(shape), layout)


class ViewTest(unittest.TestCase):
    def test_parts_that_touch_are_one_range_in_the_order_of_the_row(self):
        self.assertEqual(LAYOUT.view(["joints", "gait"]), ((4, 9),))
        self.assertEqual(LAYOUT.view(["joints", "camera"]), ((0, 4), (7, 9)))

    def test_an_unknown_part_is_named_with_those_that_there_are(self):
        with self.assertRaisesRegex(
            KeyError, "'legs' is not a part of the observation; its parts are camera, gait, jo"
        ):
            LAYOUT.view(["legs"])

    def test_columns_are_selected_from_the_last_axis(self):
        row = np.arange(18.0).reshape(2, 9)
        for names, expected in ((["gait"], [4, 5, 6]), (["camera", "joints"], [0, 1, 2, 3, 7, 8])):
            view = LAYOUT.view(names)
            self.assertEqual(row[columns_of(view)][0].tolist(), expected)
            self.assertEqual(row[columns_of(view)].shape, (2, view_size(view, 9)))
        self.assertTrue(np.shares_memory(row[columns_of(LAYOUT.view(["gait"]))], row))
        self.assertIs(row[columns_of(())].base, row.base)
        self.assertEqual(view_size((), 9), 9)

    def test_ranges_that_overlap_are_one(self):
        self.assertEqual(joined([(3, 5), (0, 2), (4, 8), (2, 3)]), ((0, 8),))


if __name__ == "__main__":
    unittest.main()
