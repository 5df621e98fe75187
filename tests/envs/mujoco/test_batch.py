"""A MuJoCo without `mujoco.batch`: the same tasks on Gymnasium's own classes, with one note."""

import importlib
import sys
import tempfile
import unittest
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from unittest import mock

from ddp_ppo.config.settings import Config
from ddp_ppo.envs.build import EnvError, backend_notes, describe_env
from ddp_ppo.envs.mujoco.batch import missing_batch
from ddp_ppo.runs.versions import versions
from ddp_ppo.training.plan import prepare
from tests.support.mujoco_tasks import TASKS, needs_batch

REASON = rf"MuJoCo {version('mujoco')} has no mujoco\.batch; install mujoco 3\.17 or newer$"


class DetectionTest(unittest.TestCase):
    def test_it_is_missing_exactly_if_it_cannot_be_imported(self):
        try:
            importlib.import_module("mujoco.batch")
        except ImportError:
            self.assertRegex(missing_batch(), REASON)
        else:
            self.assertIsNone(missing_batch())


class WithoutBatchTest(unittest.TestCase):
    """Where the installed MuJoCo has it, a package without batch.py stands in for it."""

    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        Path(folder, "mujoco").mkdir()
        Path(folder, "mujoco", "__init__.py").touch()
        missing_batch.cache_clear()
        self.addCleanup(missing_batch.cache_clear)
        with mock.patch.dict(sys.modules), mock.patch.object(sys, "path", [folder, *sys.path]):
            del sys.modules["mujoco"]
            self.assertRegex(missing_batch(), REASON)

    @needs_batch
    def test_gymnasium_s_own_classes_have_the_same_description(self):
        slow = [describe_env(task) for task in TASKS]
        missing_batch.cache_clear()
        fast = [describe_env(task) for task in TASKS]
        self.assertEqual({spec.backend for spec in slow}, {"gymnasium"})
        self.assertEqual([replace(spec, backend="gymnasium") for spec in fast], slow)

    def test_the_backend_that_was_asked_for_is_refused_with_what_to_install(self):
        with self.assertRaisesRegex(EnvError, f"^Ant-v5: backend mujoco does not cover it: {REASON}"):
            describe_env("Ant-v5", backend="mujoco")

    def test_a_plan_says_once_what_is_slower_and_why(self):
        found = prepare(Config(env_ids=("HalfCheetah-v5", "Walker2d-v5")), environ={}).notes
        found = [note for note in found if "mujoco" in note]
        self.assertEqual(len(found), 1)
        self.assertRegex(
            found[0], rf"^HalfCheetah-v5, Walker2d-v5: .* Gymnasium's own classes, which are slower: {REASON}"
        )

    def test_nothing_is_said_about_environments_that_never_run_as_arrays(self):
        own = "tests.envs.test_build:OwnBatchEnv"
        self.assertEqual(backend_notes(["CartPole-v1", "Ant-v4", own], env_kwargs={}, backend="auto"), [])
        self.assertEqual(backend_notes("Ant-v5", env_kwargs={}, backend="gymnasium"), [])

    def test_the_versions_of_a_run_say_so(self):
        self.assertEqual(versions()["mujoco.batch"], "missing")


if __name__ == "__main__":
    unittest.main()
