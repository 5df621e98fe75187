"""The words of the command line: every command has its function and says what it is for; wrong words are refused."""

import contextlib
import io
import os
import unittest
from pathlib import Path

import ddp_ppo
from ddp_ppo.cli import commands
from ddp_ppo.cli.parser import command_parser

COMMANDS = {
    "train": (["a.yaml"], commands.run_training),
    "plan": (["a.yaml"], commands.show_plan),
    "check": (["a.yaml"], commands.run_check),
    "bench": (["a.yaml"], commands.run_bench),
    "evaluate": (["run"], commands.run_evaluation),
    "play": (["run"], commands.run_episodes),
    "export": (["run"], commands.run_export),
    "report": (["run"], commands.write_report_of),
    "compare": (["run"], commands.run_comparison),
    "replay": (["evidence.pt"], commands.show_replay),
    "settings": ([], commands.show_settings),
    "metrics": ([], commands.show_metrics),
    "disco-weights": ([], commands.fetch_weights),
}


class ParserTest(unittest.TestCase):
    def parse(self, *words):
        return command_parser().parse_args(words)

    def refused(self, *words):
        with contextlib.redirect_stderr(io.StringIO()) as err, self.assertRaises(SystemExit) as ended:
            self.parse(*words)
        self.assertEqual(ended.exception.code, 2)
        return err.getvalue()

    def test_every_command_leads_to_its_function(self):
        for name, (words, run) in COMMANDS.items():
            with self.subTest(name):
                self.assertIs(self.parse(name, *words).run, run)

    def test_the_help_names_every_command(self):
        text = command_parser().format_help()
        for name in COMMANDS:
            self.assertRegex(text, rf"\n    {name}\s")

    def test_the_version_is_that_of_the_package(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), self.assertRaises(SystemExit) as ended:
            command_parser().parse_args(["--version"])
        self.assertEqual((ended.exception.code, out.getvalue()), (0, f"ddp-ppo {ddp_ppo.__version__}\n"))

    def test_settings_follow_the_configuration(self):
        options = self.parse("train", "ant", "seed=3", "ppo.clip_range=0.1", "--nproc", "2")
        self.assertEqual(
            (options.config, options.overrides, options.nproc), ("ant", ["seed=3", "ppo.clip_range=0.1"], 2)
        )

    def test_files_are_absolute_and_places_expand_the_home(self):
        options = self.parse("export", "~/run", "--out", "policy")
        self.assertEqual(options.model, os.path.expanduser("~/run"))
        self.assertEqual(options.out, Path.cwd() / "policy")

    def test_numbers_are_checked(self):
        self.assertIn("'0' is not a whole number >= 1", self.refused("evaluate", "run", "--episodes", "0"))
        self.assertIn("invalid choice", self.refused("compare", "run", "--against", "nobody"))
        self.assertIn("COMMAND", self.refused())

    def test_a_variable_that_is_not_set_is_named(self):
        self.assertIn("NOT_SET_ANYWHERE", self.refused("evaluate", "$NOT_SET_ANYWHERE/run"))


if __name__ == "__main__":
    unittest.main()
