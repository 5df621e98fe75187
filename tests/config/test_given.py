"""What a program gives a Config, by itself or with `dataclasses.replace`."""

import dataclasses
import inspect
import unittest
from pathlib import Path

import numpy as np

from ddp_ppo.config.load import load_config
from ddp_ppo.config.ppo import PPOSettings
from ddp_ppo.config.settings import Config, ConfigError
from tests.support.toy_learner import ToySettings

TOY = f"{ToySettings.__module__}:TOY"


class ReplaceTest(unittest.TestCase):
    def test_a_section_of_a_learner_from_outside_is_changed_by_each_of_its_names(self):
        for config in (Config(learner=TOY, toy={"step": 0.1, "num_steps": 4}), load_config("ant", [f"learner={TOY}"])):
            for change in ({"toy": {"step": 0.2}}, {"toy.step": 0.2}, {"external": {"toy": {"step": 0.2}}}):
                with self.subTest(change):
                    self.assertEqual(dataclasses.replace(config, **change).section.step, 0.2)

    def test_a_mapping_changes_a_section_key_by_key_and_an_object_replaces_it(self):
        config = Config(clip_range=0.3, num_epochs=4)
        changed = dataclasses.replace(config, ppo={"num_epochs": 5})
        self.assertEqual((changed.ppo.clip_range, changed.ppo.num_epochs), (0.3, 5))
        self.assertEqual(dataclasses.replace(config, ppo=PPOSettings(num_epochs=5)).ppo, PPOSettings(num_epochs=5))
        self.assertEqual(
            dataclasses.replace(Config(learner=TOY, toy={"step": 0.1}), toy={"num_steps": 4}).toy.step, 0.1
        )

    def test_a_packaged_configuration_takes_another_learner_as_on_the_command_line(self):
        for learner in (TOY, "disco"):
            replaced = dataclasses.replace(load_config("CartPole-v1"), learner=learner)
            self.assertEqual(replaced, load_config("CartPole-v1", [f"learner={learner}"]))

    def test_a_value_of_another_type_is_a_new_one(self):
        with self.assertRaisesRegex(ConfigError, "^code: seed: got True; allowed"):
            dataclasses.replace(Config(), seed=True)
        with self.assertRaisesRegex(ConfigError, "^code: seed: got 1.0; allowed"):
            dataclasses.replace(Config(), seed=1.0)


class GivenTest(unittest.TestCase):
    def test_two_values_for_one_setting_are_refused(self):
        words = "code: clip_range: given twice, as ppo.clip_range: 0.3 and as clip_range: 0.1"
        for section in ({"ppo": {"clip_range": 0.3}}, {"ppo": PPOSettings(clip_range=0.3)}, {"ppo.clip_range": 0.3}):
            with self.subTest(section), self.assertRaisesRegex(ConfigError, words):
                Config(**section, clip_range=0.1)
        self.assertEqual(Config(clip_range=0.1, ppo={"clip_range": 0.1}).ppo.clip_range, 0.1)
        self.assertEqual(Config(clip_range=0.1, ppo=PPOSettings(num_epochs=3)).ppo.clip_range, 0.1)

    def test_paths_and_numbers_of_numpy_are_values(self):
        config = Config(
            output_dir=Path("a") / "b",
            resume=Path("run"),
            seed=np.int64(3),
            gamma=np.float32(0.5),
            normalize_obs=np.False_,
            hidden_sizes=np.array([32, 16]),
            ppo={"minibatch_size": np.random.default_rng(0).choice([16, 16])},
            env_kwargs={"range": [np.float64(0.25), 2]},
        )
        self.assertEqual((config.output_dir, config.resume, config.seed, config.gamma), ("a/b", "run", 3, 0.5))
        self.assertEqual((config.normalize_obs, config.hidden_sizes), (False, (32, 16)))
        self.assertEqual((config.ppo.minibatch_size, config.env_kwargs), (16, {"range": [0.25, 2]}))
        self.assertEqual([type(config.seed), type(config.gamma), type(config.output_dir)], [int, float, str])
        with self.assertRaisesRegex(ConfigError, "code: env_id: got PosixPath"):
            Config(env_id=Path("a"))

    def test_where_values_come_from_cannot_be_given(self):
        with self.assertRaisesRegex(ConfigError, "code: origins: not a setting"):
            Config(origins={"seed": "nowhere"})

    def test_what_is_not_a_section_is_called_so(self):
        with self.assertRaisesRegex(ConfigError, "code: external: a: 3 is not a section of settings"):
            Config(external={"a": 3})


class SignatureTest(unittest.TestCase):
    def test_help_lists_every_field_with_its_default(self):
        parameters = inspect.signature(Config).parameters
        self.assertEqual({*parameters}, {item.name for item in dataclasses.fields(Config)} - {"origins"})
        self.assertEqual((parameters["gamma"].default, parameters["ppo"].default), (0.99, PPOSettings()))


if __name__ == "__main__":
    unittest.main()
