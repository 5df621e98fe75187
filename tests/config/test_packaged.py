"""Which configuration a word means."""

import shutil
import subprocess
import sys
import unittest
import zipfile

from ddp_ppo.config.load import load_config
from ddp_ppo.config.packaged import FOLDER, find_source
from ddp_ppo.config.settings import ConfigError
from tests.support.config_case import ROOT, ConfigCase


class SourceTest(ConfigCase):
    def test_the_configurations_of_a_checkout_are_those_at_its_top_level(self):
        self.assertEqual(FOLDER, ROOT / "configs")

    def test_a_task_has_the_configuration_that_is_called_after_it(self):
        for env_id, name in (
            ("HalfCheetah-v5", "half_cheetah"),  # multi_gpu trains it too
            ("InvertedPendulum-v5", "inverted_pendulum"),  # smoke too
            ("CartPole-v1", "cartpole"),  # disco_cartpole too
            ("Walker2d-v5", "walker2d"),
        ):
            config = load_config(env_id, ["seed=3"])
            with self.subTest(env_id):
                self.assertEqual((config.env_id, config.name, config.seed, config.learner), (env_id, name, 3, "ppo"))
                self.assertEqual(config, load_config(ROOT / f"configs/{name}.yaml", ["seed=3"]))

    def test_any_other_task_has_the_base_and_its_own_name(self):
        base = load_config(ROOT / "configs/base.yaml")
        for env_id, name in (
            ("HalfCheetah-v4", "HalfCheetah-v4"),
            ("Acrobot-v1", "Acrobot-v1"),  # only disco_acrobot trains it
            ("my_module:My/Env-v0", "My_Env-v0"),
        ):
            config = load_config(env_id)
            with self.subTest(env_id):
                self.assertEqual((config.env_id, config.name), (env_id, name))
                self.assertEqual((config.ppo, config.origins["env_id"]), (base.ppo, "command line"))
        self.assertEqual(load_config("Acrobot-v1", ["env_id=CartPole-v1"]).env_id, "CartPole-v1")

    def test_the_name_of_a_configuration_is_enough(self):
        self.assertEqual(load_config("half_cheetah"), load_config(ROOT / "configs/half_cheetah.yaml"))

    def test_a_run_s_own_file_has_the_name_of_the_run_s_configuration(self):
        path = self.write("seed: 9\n", "config.yaml")
        self.assertEqual(load_config(path).name, "config")
        self.write("\ncartpole\n", "lock")
        self.assertEqual(load_config(path).name, "cartpole")

    def test_settings_that_nobody_chose_give_way(self):
        config = load_config("CartPole-v1", ["learner=disco"])
        self.assertEqual((config.ppo.num_epochs, config.gamma), (10, 0.98))
        with self.assertRaisesRegex(ConfigError, "ppo.num_epochs: has no effect"):
            load_config(ROOT / "configs/cartpole.yaml", ["learner=disco"])

    def test_a_file_is_a_file_whatever_it_is_called(self):
        path = self.write("seed: 9\n", "Ant-v5")
        self.assertEqual(load_config(path).seed, 9)
        self.assertEqual(find_source("half_cheetah.yaml").path, "half_cheetah.yaml")
        for word in ("none/half_cheetah.yaml", f"{self.folder}/ant"):
            with self.assertRaisesRegex(ConfigError, f"{word}: cannot be read"):
                load_config(word)

    def test_a_setting_is_not_a_configuration(self):
        for word in ("seed=3", "", " "):
            with self.subTest(word), self.assertRaisesRegex(ConfigError, "the first word is the configuration: a YAML"):
                load_config(word)


class WheelTest(ConfigCase):
    def test_a_wheel_holds_the_configurations_and_the_mark_of_types(self):
        project = self.folder / "project"
        shutil.copytree(ROOT / "ddp_ppo", project / "ddp_ppo", symlinks=True)
        for name in ("configs", "setup.cfg", "pyproject.toml", "LICENSE"):
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, project / name)
        code = f"from setuptools import build_meta; build_meta.build_wheel({str(self.folder)!r})"
        subprocess.run([sys.executable, "-c", code], cwd=project, check=True, timeout=120, capture_output=True)
        (wheel,) = self.folder.glob("*.whl")
        names = set(zipfile.ZipFile(wheel).namelist())
        configs = {f"ddp_ppo/configs/{path.name}" for path in (ROOT / "configs").iterdir()}
        self.assertEqual((configs | {"ddp_ppo/py.typed"}) - names, set())


if __name__ == "__main__":
    unittest.main()
