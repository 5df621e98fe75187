"""A module that a setting names is found in the current folder too."""

import contextlib
import sys
import tempfile
import unittest
from pathlib import Path

from ddp_ppo.imports import import_here


class ImportTest(unittest.TestCase):
    def test_a_module_in_the_current_folder_is_found(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            Path("module_that_lies_here.py").write_text("ANSWER = 42\n")
            path = sys.path.copy()
            try:
                self.assertEqual(import_here("module_that_lies_here").ANSWER, 42)
            finally:
                sys.path[:] = path
                sys.modules.pop("module_that_lies_here", None)

    def test_what_it_raises_is_what_importing_raises(self):
        with self.assertRaises(ModuleNotFoundError):
            import_here("no_module_has_this_name")


if __name__ == "__main__":
    unittest.main()
