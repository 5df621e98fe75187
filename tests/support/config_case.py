"""What the tests of settings share: files to load, and refusals that leave nothing behind."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from ddp_ppo.config.load import load_config
from ddp_ppo.config.settings import ConfigError

ROOT = Path(__file__).resolve().parents[2]


class ConfigCase(unittest.TestCase):
    """Gives each test a folder of its own and checks that loading leaves nothing behind in it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, text, name="task.yaml"):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def load(self, text, *overrides):
        return load_config(self.write(text), overrides)

    def refused(self, text, *overrides):
        """The lines of the error that loading this file must raise."""
        path = self.write(text)
        before = sorted(self.folder.rglob("*"))
        with self.assertRaises(ConfigError) as caught:
            load_config(path, overrides)
        self.assertEqual(sorted(self.folder.rglob("*")), before, "loading created something on disk")
        return str(caught.exception).splitlines()

    def assert_refused(self, text, *parts):
        """Exactly one error, which holds all of `parts`."""
        lines = self.refused(text)
        self.assertEqual(len(lines), 1, lines)
        for part in parts:
            self.assertIn(part, lines[0])
