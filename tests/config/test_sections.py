"""Sections of settings of learners from outside the package."""

import contextlib
import dataclasses
import pickle
import unittest

from ddp_ppo.config.load import load_config
from ddp_ppo.config.sections import EXPECTED, FLAT_NAMES, OWN, PATTERN, canonical
from ddp_ppo.config.settings import GENERAL, Config, ConfigError
from ddp_ppo.config.writing import read_effective, save_effective
from tests.support.config_case import ConfigCase
from tests.support.toy_learner import ToySettings

MODULE = ToySettings.__module__
HEAD = f"learner: {MODULE}:TOY\n"


class OutsideTest(ConfigCase):
    def test_its_section_is_called_by_its_name_and_read_as_any_other(self):
        config = self.load(f"{HEAD}toy:\n  step: 0.1\n", "toy.num_steps=4")
        self.assertEqual(config.section, ToySettings(step=0.1, num_steps=4))
        self.assertEqual((config.toy.step, config.sections["toy"].way), (0.1, "up"))
        self.assertEqual(config.origins["toy.step"], f"{self.folder}/task.yaml:3")
        self.assertEqual(self.load("{}", "toy.step=0.1", f"learner={MODULE}:TOY").section, ToySettings(step=0.1))

    def test_it_is_inherited_key_by_key(self):
        self.write(f"{HEAD}toy: {{step: 0.1, way: down}}\n", "base.yaml")
        config = self.load("inherits: base.yaml\ntoy: {way: left}\n")
        self.assertEqual(config.section, ToySettings(step=0.1, way="left"))

    def test_mistakes_are_told_as_those_of_any_other(self):
        self.assert_refused(f"{HEAD}toy: {{step: 2}}\n", "task.yaml:2: toy.step: got 2; allowed: a number > 0 and <= 1")
        self.assert_refused(f"{HEAD}toy: {{stp: 1}}\n", "task.yaml:2: toy.stp: unknown setting; did you mean toy.step?")
        self.assert_refused(f"{HEAD}toy: {{step: 0.9}}\ngamma: 0.5\n", "toy.step: 0.9 is more than gamma: 0.5")
        self.assert_refused(f"{HEAD}toy:\n  way: down\n  num_steps: null\n", "task.yaml:3: toy.way: has no effect with")
        self.assert_refused(
            f"{HEAD}gae_lambda: 0.5\n", "gae_lambda: has no effect with learner: ", "the toy does not read"
        )
        self.assert_refused(f"{HEAD}clip_range: 0.1\n", "clip_range: has no effect with learner: ", "belongs to PPO")

    def test_its_settings_have_no_effect_with_another_learner(self):
        self.write(f"{HEAD}toy: {{step: 0.1}}\n", "base.yaml")
        self.assertEqual(self.load("inherits: base.yaml\n", "learner=ppo"), Config())
        (line,) = self.refused(f"{HEAD}toy: {{step: 0.1}}\n", "learner=ppo")
        self.assertIn('toy.step: has no effect with learner: "ppo", as it belongs to the toy; remove it', line)
        self.assert_refused("toy: {step: 0.1}\n", "task.yaml:1: toy: unknown setting")

    def test_it_is_written_and_read_back(self):
        config = self.load(f"{HEAD}toy: {{step: 0.1}}\n")
        path = self.folder / "effective.yaml"
        save_effective(config, path)
        self.assertEqual(load_config(path), config)
        self.assertEqual(read_effective(path.read_text(), "here")["toy.step"], (0.1, f"{self.folder}/task.yaml:2"))

    def test_it_works_in_code_and_travels(self):
        learner = f"{MODULE}:TOY"
        config = Config(learner=learner, toy={"step": 0.1})
        self.assertEqual(config, Config(learner=learner, external={"toy": ToySettings(step=0.1)}))
        self.assertEqual(config, Config(learner=learner, toy=ToySettings(step=0.1)))
        self.assertEqual(dataclasses.replace(config, seed=2).section, ToySettings(step=0.1))
        self.assertEqual(pickle.loads(pickle.dumps(config)), config)
        self.assertNotEqual(config, Config(learner=learner))
        with self.assertRaisesRegex(ConfigError, 'toy.step: has no effect with learner: "ppo"'):
            dataclasses.replace(config, learner="ppo")
        self.assertEqual(dataclasses.replace(Config(learner=learner), learner="ppo"), Config())

    def test_a_module_beside_the_configuration_s_user_is_found(self):
        self.write(
            "from tests.support.toy_learner import ToySettings\nclass KIND: name, settings = 'toy', ToySettings\n",
            "near_learner_module.py",
        )
        with contextlib.chdir(self.folder):
            self.assertEqual(self.load("learner: near_learner_module:KIND\ntoy.step: 0.1\n").toy.step, 0.1)

    def test_what_cannot_be_used_is_an_error_in_one_line(self):
        for name, said in (
            (f"{MODULE}:NONE", "AttributeError: module 'tests.support.toy_learner' has no attribute 'NONE'"),
            (f"{MODULE}:NO_SETTINGS", "has no attribute 'settings'"),
            ("no_such_module:TOY", "ModuleNotFoundError: No module named 'no_such_module'"),
            (f"{MODULE}:TAKEN", "its name 'ppo' must be an identifier other than ppo and disco"),
            (f"{MODULE}:GENERAL", "its name 'seed' means something else in a configuration; choose another"),
            (f"{MODULE}:FLAT", "its name 'clip_range' means something else"),
            (f"{MODULE}:MEMBER", "its name 'origins' means something else"),
            (f"{MODULE}:KEY", "its name 'inherits' means something else"),
            (f"{MODULE}:KEYWORD", "its name 'class' must be an identifier"),
            (f"{MODULE}:SPACED", "its name 'a toy' must be an identifier"),
            (f"{MODULE}:BARE", "its settings, BareSettings: step is not declared with setting(...)"),
            (f"{MODULE}:LOOSE", "its settings, LooseSettings, must be a frozen data class"),
            (f"{MODULE}:PLAIN", "its settings <class 'dict'> must be a frozen data class"),
        ):
            with self.subTest(name):
                self.assert_refused(
                    f"learner: {name}\ntoy: {{step: 0.1}}\n", f"task.yaml:1: learner: got {name}; ", said
                )
                with self.assertRaisesRegex(ConfigError, "code: learner: got '"):
                    Config(learner=name)

    def test_a_word_that_is_neither_is_refused(self):
        self.assert_refused("learner: sac\n", "task.yaml:1: learner: got sac; allowed: ppo, disco or module:attribute")


class NamesTest(unittest.TestCase):
    def test_every_learner_of_the_package_has_a_field_and_is_an_allowed_word(self):
        sections = {item.name: item.default_factory for item in dataclasses.fields(Config) if item.name in OWN}
        self.assertEqual(sections, {name: section.settings for name, section in OWN.items()})
        self.assertEqual(Config().sections, {name: section.settings() for name, section in OWN.items()})
        for name in OWN:
            self.assertRegex(name, PATTERN)
            self.assertIn(name, EXPECTED)

    def test_no_flat_name_is_that_of_a_general_setting(self):
        self.assertFalse({*FLAT_NAMES} & {*GENERAL})
        self.assertEqual((canonical("clip_range"), canonical("gamma")), ("ppo.clip_range", "gamma"))
        self.assertEqual((canonical("disco_weights"), canonical("ppo.clip_range")), ("disco.weights", "ppo.clip_range"))


if __name__ == "__main__":
    unittest.main()
