"""A temporary folder for each test, and files that may not be read."""

import tempfile
import unittest
from pathlib import Path


class Payload:
    """Pickles to a call that creates a file."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return open, (str(self.marker), "w")


class OwnFolderTestCase(unittest.TestCase):
    """A test case with a temporary folder per test."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="ddp_ppo_test_")
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def names(self, folder=None):
        """What is in the folder, or in another."""
        return sorted(path.name for path in (folder or self.folder).iterdir())
