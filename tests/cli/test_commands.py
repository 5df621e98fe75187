"""What commands say at their end."""

import contextlib
import tempfile
import unittest
from pathlib import Path

from ddp_ppo.cli.commands import _near, _with_words


class WordsTest(unittest.TestCase):
    def test_a_setting_that_a_command_has_chosen_replaces_a_person_s(self):
        words = ["seed=3", "num_actors=2", "env_kwargs={a: 1}"]
        self.assertEqual(
            _with_words(words, ["num_actors=4", "rollout_length=64"]),
            ["seed=3", "env_kwargs={a: 1}", "num_actors=4", "rollout_length=64"],
        )

    def test_a_path_below_the_current_folder_is_shown_from_there(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            self.assertEqual(_near(Path.cwd() / "output" / "a"), Path("output/a"))
            self.assertEqual(_near(Path("/elsewhere/a")), Path("/elsewhere/a"))


if __name__ == "__main__":
    unittest.main()
