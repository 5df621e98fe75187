"""What a run was made with."""

import json
import platform
import tempfile
import unittest
from pathlib import Path

import numpy
import torch

import ddp_ppo
from ddp_ppo.runs.versions import save_versions, source_hash, versions


class VersionsTest(unittest.TestCase):
    def test_they_are_those_that_are_imported(self):
        found = versions()
        expected = {"ddp_ppo": ddp_ppo.__version__, "python": platform.python_version(), "numpy": numpy.__version__}
        self.assertEqual({name: found[name] for name in expected}, expected)
        self.assertEqual(found["torch"].split("+")[0], torch.__version__.split("+")[0])

    def test_the_source_is_named_by_its_content(self):
        self.assertRegex(source_hash(), r"\A[0-9a-f]{12}\Z")
        self.assertEqual(source_hash(), versions()["source"])

    def test_the_file_holds_the_same_and_what_was_in_force(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "versions.json"
            save_versions(path, {"learners": "2"})
            self.assertEqual(json.loads(path.read_text()), {**versions(), "learners": "2"})


if __name__ == "__main__":
    unittest.main()
