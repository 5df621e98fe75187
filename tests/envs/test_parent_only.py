"""Environments that only a script or a notebook knows are refused before an actor starts."""

import sys
import types
import unittest

import gymnasium

from ddp_ppo.envs.parent_only import require_known_to_actors
from ddp_ppo.errors import EnvError
from tests.support.process import PROGRAMS, FolderTestCase, Program, succeeded
from tests.support.script_env import ScriptEnv


class ScriptTest(FolderTestCase):
    def test_a_script_that_registers_below_its_guard_is_told_where_to_register(self):  # N-17
        output = self.folder / "output"
        output.mkdir()
        with Program(PROGRAMS / "registers_late.py", output, folder=self.work) as program:
            late, in_main, imported, replaced, top = [
                line for line in succeeded(program).out.splitlines() if line.endswith(" files") or " rounds " in line
            ]
        why = "only this process knows it, actors are processes of their own; register it in a module, which actors "
        self.assertEqual(late, f"Late-v0: {why}import first: env_id=my_module:Late-v0, 0 files")
        self.assertEqual(in_main, f"__main__:Late-v0: {why}import first: env_id=my_module:Late-v0, 0 files")
        self.assertEqual(
            imported, f"Imported-v0: {why}import first: env_id=tests.support.script_env:Imported-v0, 0 files"
        )
        self.assertRegex(
            replaced, "CartPole-v1: here it is tests.support.script_env:ScriptEnv .*, in actors, .*gymnasium"
        )
        self.assertEqual(top, "Top-v0 rounds 1")


class NotebookTest(unittest.TestCase):
    def test_a_module_without_a_file_is_refused(self):
        module = types.ModuleType("written_in_a_cell")
        module.Own = type("Own", (ScriptEnv,), {"__module__": module.__name__})
        sys.modules[module.__name__] = module
        self.addCleanup(sys.modules.pop, module.__name__)
        gymnasium.register("Cell-v0", module.Own)
        for env_id in ("written_in_a_cell:Cell-v0", "written_in_a_cell:Own"):
            with self.subTest(env_id), self.assertRaisesRegex(EnvError, f"{env_id}: only this process knows it"):
                require_known_to_actors(env_id)

    def test_what_actors_know_needs_no_process(self):
        for env_id in ("CartPole-v1", "tests.support.fixtures:Count-v0", ["CartPole-v1", "CartPole-v0"]):
            require_known_to_actors(env_id)


if __name__ == "__main__":
    unittest.main()
