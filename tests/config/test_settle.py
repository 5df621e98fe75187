"""All settings together: what does nothing, where the values come from, every mistake at once."""

import dataclasses
import unittest

from ddp_ppo.config.sections import canonical
from ddp_ppo.config.settings import Config, ConfigError
from tests.support.config_case import ConfigCase


class NoEffectTest(ConfigCase):
    USELESS = (
        ("param_sync_interval: 4", "sync_mode: gradients", "sync_mode=gradients"),
        ("recompute_advantages: true", "num_epochs: 1", "num_epochs=1"),
        ("activation: relu", "hidden_sizes: []", "hidden_sizes=[]"),
    )

    def test_a_setting_without_effect_is_refused_where_a_person_set_it(self):
        for line, other, word in self.USELESS:
            with self.subTest(line):
                key = line.split(":")[0]
                self.assert_refused(
                    f"{line}\n{other}\n", f"task.yaml:1: {key}", "has no effect with", other.split(":")[0]
                )
                self.assertIn(f"task.yaml:1: {key}", self.refused(f"{line}\n", word)[0])
                self.load(f"{line}\n")
                with self.assertRaisesRegex(ConfigError, key):
                    self.load(f"{other}\n", line.replace(": ", "="))
        with self.assertRaisesRegex(ConfigError, "code: param_sync_interval"):
            Config(param_sync_interval=4, sync_mode="gradients")

    def test_a_setting_without_effect_that_was_inherited_falls_back_to_its_default(self):
        for line, other, word in self.USELESS:
            with self.subTest(line):
                self.write(f"{line}\n", "base.yaml")
                for config in (self.load(f"inherits: base.yaml\n{other}\n"), self.load("inherits: base.yaml\n", word)):
                    key = line.split(":")[0]
                    self.assertEqual(getattr(config, key), getattr(Config(), key))
                    self.assertEqual(config.origins[canonical(key)], "default")

    def test_what_a_learner_does_not_read_is_refused(self):
        said = 'task.yaml:1: gae_lambda: has no effect with learner: "disco", as DiscoRL does not read it; remove it'
        self.assert_refused("gae_lambda: 0.5\nlearner: disco\nlearning_rate_schedule: constant\n", said)

    def test_a_learner_that_is_not_known_does_not_cause_complaints_about_sections(self):
        self.assert_refused("learner: pppo\nclip_range: 0.3\ndisco_batch_size: 3\n", "task.yaml:1: learner: got pppo")


class AlternativesTest(ConfigCase):
    """Of num_envs and envs_per_actor the one that is given nearer to the command line counts."""

    def of(self, config):
        return config.num_envs, config.envs_per_actor

    def test_the_command_line_wins_over_a_file_and_a_file_over_what_it_inherits(self):
        self.write("num_envs: 16\n", "base.yaml")
        self.write("inherits: base.yaml\nenvs_per_actor: 4\n", "middle.yaml")
        self.assertEqual(self.of(self.load("inherits: base.yaml\n")), (16, None))
        self.assertEqual(self.of(self.load("inherits: middle.yaml\n")), (None, 4))
        self.assertEqual(self.of(self.load("inherits: middle.yaml\nnum_envs: 6\n")), (6, None))
        self.assertEqual(self.of(self.load("inherits: base.yaml\n", "envs_per_actor=3")), (None, 3))
        self.assertEqual(self.of(self.load("envs_per_actor: 3\n", "num_envs=12")), (12, None))

    def test_a_program_wins_over_both(self):
        config = self.load("gamma: 0.5\n", "envs_per_actor=4")
        self.assertEqual(self.of(dataclasses.replace(config, num_envs=12)), (12, None))
        config = self.load("gamma: 0.5\n", "num_envs=12")
        self.assertEqual(self.of(dataclasses.replace(config, envs_per_actor=4)), (None, 4))


class OriginTest(ConfigCase):
    def test_a_replaced_setting_comes_from_code_and_the_others_from_where_they_came(self):
        config = dataclasses.replace(self.load("seed: 3\ngamma: 0.5\nppo: {num_epochs: 3}\n"), seed=4, num_epochs=2)
        self.assertEqual((config.seed, config.gamma, config.ppo.num_epochs), (4, 0.5, 2))
        places = [config.origins[name] for name in ("seed", "gamma", "ppo.num_epochs", "ppo.clip_range")]
        self.assertEqual(places, ["code", f"{self.folder}/task.yaml:2", "code", "default"])

    def test_a_person_names_what_is_neither_inherited_nor_a_default(self):
        base = self.write("seed: 3\ngamma: 0.5\n", "base.yaml")
        config = self.load(f"inherits: {base.name}\ngamma: 0.6\n", "gae_lambda=0.95")
        self.assertEqual([name for name in config.values() if config.is_named(name)], ["gamma", "gae_lambda"])
        again = dataclasses.replace(config, learner_threads=1)
        self.assertEqual([again.is_named(name) for name in ("seed", "gamma", "learner_threads")], [False, True, True])

    def test_a_broken_rule_is_told_where_the_first_of_its_settings_was_given(self):
        self.assertIn("task.yaml:2: num_actors: ", self.refused("seed: 2\nnum_actors: 3\n", "num_gpus=2")[0])
        self.assertIn("command line: num_actors: 2 ", self.refused("seed: 2\n", "num_gpus=4", "num_actors=2")[0])

    def test_mistakes_of_reading_come_before_broken_rules(self):
        with self.assertRaises(ConfigError) as caught:
            Config(num_gpus=3, num_actors=2, gamma=2, zzz=1)
        lines = str(caught.exception).splitlines()
        self.assertEqual([line.split(": ")[1] for line in lines], ["gamma", "zzz", "num_actors"])


if __name__ == "__main__":
    unittest.main()
