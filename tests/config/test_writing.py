"""Settings as text: what is written is read again, and the page of all settings."""

import unittest

import yaml

from ddp_ppo.config.load import load_config
from ddp_ppo.config.settings import Config, describe_settings
from ddp_ppo.config.writing import dump_effective, read_effective, save_effective, settings_reference
from tests.support.config_case import ROOT, ConfigCase

ODD_VALUES = {
    "env_kwargs": {
        "r": (0.2, float("inf")),
        "t": "x: 'y' \"z\" # \u2028\x07\x85é😀\\ \n" + "long " * 40,
        "n": None,
    },
    "hidden_sizes": (),
    "learning_rate": 1e-30,
    "adam_eps": 12345678901234567.0,
    "seed": 10**18,
    "output_dir": "~/out put: #1 'a' \"b\" é😀\\",
    "run_name": "null",
    "metrics_path": "true",
    "resume": "auto",
    "max_grad_norm": None,
}


class EffectiveTest(ConfigCase):
    def test_it_loads_again_to_an_equal_config(self):
        for config in (
            Config(),
            Config(**ODD_VALUES),
            load_config(ROOT / "configs/multi_gpu.yaml", ["seed=9", "ppo.clip_range=0.1"]),
        ):
            path = self.folder / "effective.yaml"
            save_effective(config, path)
            self.assertEqual(load_config(path), config)
            self.assertEqual(path.read_text(encoding="utf-8"), dump_effective(config))

    def test_it_holds_every_setting_with_its_origin(self):
        config = self.load("\nseed: 3\n", "gamma=.5")
        lines = dump_effective(config).splitlines()
        sections = [line for line in lines if "#" not in line]
        self.assertEqual((sections, len(lines)), (["ppo:", "disco:"], len(describe_settings()) + 2))
        self.assertIn(f"seed: 3  # {self.folder}/task.yaml:2", lines)
        self.assertIn("  clip_range: 0.2  # default", lines)
        self.assertIn("gamma: 0.5  # command line", lines)
        self.assertIn("gae_lambda: 0.95  # default", lines)

    def test_other_yaml_readers_agree(self):
        values = yaml.safe_load(dump_effective(Config(seed=7, run_name="010", hidden_sizes=(8, 4))))
        self.assertEqual((values["seed"], values["run_name"], values["hidden_sizes"]), (7, "010", [8, 4]))

    def test_settings_that_were_inherited_without_effect_load_again(self):
        self.write("param_sync_interval: 4\n", "base.yaml")
        config = self.load("inherits: base.yaml\nsync_mode: gradients\n")
        save_effective(config, self.folder / "effective.yaml")
        self.assertEqual(load_config(self.folder / "effective.yaml"), config)

    def test_it_is_read_by_the_names_of_settings_also_where_it_was_written_before_there_were_sections(self):
        found = read_effective(
            "seed: 3  # a:1\nclip_range: 0.1  # b:2\ndisco_batch_size: 5\nenv_kwargs: {a: 1}\n", "here"
        )
        expected = {"seed": (3, "a:1"), "ppo.clip_range": (0.1, "b:2"), "disco.batch_size": (5, "")}
        self.assertEqual(found, {**expected, "env_kwargs": ({"a": 1}, "")})
        config = Config(clip_range=0.1, env_kwargs={"a": 1})
        found = read_effective(dump_effective(config), "here")
        self.assertEqual([*found], [*config.values()])
        self.assertEqual((found["ppo.clip_range"], found["env_kwargs"]), ((0.1, "code"), ({"a": 1}, "code")))

    def test_a_file_that_was_written_before_there_were_sections_loads(self):
        old = 'env_id: "CartPole-v1"  # a:1\nclip_range: 0.1  # b:2\ndisco_batch_size: 64  # default\n'
        config = self.load(old)
        self.assertEqual(config, Config(env_id="CartPole-v1", clip_range=0.1))


class ReferenceTest(unittest.TestCase):
    def test_the_page_of_settings_is_what_the_command_prints(self):
        self.assertEqual((ROOT / "docs/settings.md").read_text(), settings_reference())

    def test_each_learner_has_a_section_with_its_settings(self):
        general, ppo, disco = settings_reference().split("\n## ")
        self.assertIn("| `gamma` | float | `0.99` |", general)
        self.assertTrue(ppo.startswith("PPO\n") and disco.startswith("DiscoRL\n"))
        self.assertIn("| `ppo.clip_range` | float | `0.2` | a number > 0 and <= 1 |", ppo)
        self.assertIn("| `disco.batch_size` | int | `64` |", disco)
        self.assertNotIn("clip_range", general)


if __name__ == "__main__":
    unittest.main()
