"""The words of the command line: which configuration is meant, and paths as a person writes them."""

import contextlib
import io
import json
import os
import unittest
from pathlib import Path
from unittest.mock import patch

from ddp_ppo.__main__ import main
from ddp_ppo.cli import commands
from ddp_ppo.config.settings import Config
from ddp_ppo.training.history import TrainingResult
from tests.support.config_case import ConfigCase


def said(*words):
    """Exit status, output and errors of a command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(list(words))
        except SystemExit as error:
            status = error.code
    return status, out.getvalue(), err.getvalue()


class ConfigurationTest(ConfigCase):
    def test_a_task_or_a_name_stands_for_a_configuration(self):
        os.environ["DDP_PPO_TEST_FOLDER"] = str(self.folder)
        self.addCleanup(os.environ.pop, "DDP_PPO_TEST_FOLDER")
        output = f"output_dir={self.folder}"
        for word in ("CartPole-v1", "cartpole"):
            status, out, err = said("plan", word, output, "device=cpu", "--json", "$DDP_PPO_TEST_FOLDER/plan.json")
            with self.subTest(word):
                self.assertEqual((status, err), (0, ""))
                self.assertRegex(out, "environment +CartPole-v1, ")
                self.assertIn(f"check it       ddp-ppo check {word} {output}", out)
                plan = json.loads((self.folder / "plan.json").read_text())
                self.assertIn("20 epochs x 1 mini-batches of 256", plan["update"])

    def test_without_a_configuration_nothing_is_started(self):
        for command in ("train", "plan", "check", "bench"):
            with self.subTest(command):
                status, _, err = said(command)
                self.assertEqual(status, 2)
                self.assertIn("the following arguments are required: config", err)
                status, _, err = said(command, "seed=3")
                self.assertEqual((status, err.count("\n")), (2, 1))
                self.assertIn("seed=3: the first word is the configuration: ", err)


class PathTest(ConfigCase):
    def test_every_path_of_a_command_may_have_variables(self):
        place = "$DDP_PPO_NONE/x"
        commands = [
            *((command, place) for command in ("evaluate", "play", "export", "report", "compare", "replay")),
            *(("evaluate", "a", option, place) for option in ("--csv", "--json")),
            *(("play", "a", option, place) for option in ("--actions", "--out", "--json")),
            *(("export", "a", option, place) for option in ("--out", "--json")),
            *(("report", "a", option, place) for option in ("--out", "--json")),
            *(("compare", "a", option, place) for option in ("--out", "--png", "--json")),
            *((command, "smoke", "--json", place) for command in ("train", "plan", "check", "bench")),
            ("disco-weights", "--out", place),
        ]
        for words in commands:
            with self.subTest(words):
                status, _, err = said(*words)
                self.assertEqual(status, 2)
                self.assertIn(f"{place}: the environment variable $DDP_PPO_NONE is not set", err.splitlines()[-1])

    def test_home_is_found(self):
        with patch.dict(os.environ, {"HOME": str(self.folder)}):
            status, _, err = said("report", "~/no_run")
        self.assertEqual(status, 2)
        self.assertIn(f"ddp-ppo: {self.folder}/no_run: no such folder; ", err)


class ClosingWordsTest(unittest.TestCase):
    """The last lines of a training."""

    def test_what_could_not_be_written_is_named_at_the_end(self):  # H-e
        folder = Path("output/ant-a")
        result = TrainingResult(home=folder, rounds=9, env_steps=64, unwritten=(folder / "checkpoints",))
        lines = commands._closing_words(result, Config(name="ant")).splitlines()
        self.assertEqual(lines[0], "done: 9 rounds, 64 environment steps")
        self.assertIn("output/ant-a/checkpoints: the last rounds are missing, as it could not be written", lines[1])


if __name__ == "__main__":
    unittest.main()
