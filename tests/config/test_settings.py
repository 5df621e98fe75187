"""The Config of a run: what follows from its settings, construction in code, and the files in configs/."""

import dataclasses
import importlib
import os
import pickle
import unittest

from ddp_ppo.config.load import load_config
from ddp_ppo.config.ppo import PPOSettings
from ddp_ppo.config.settings import Config, ConfigError, describe_settings
from tests.support.config_case import ROOT, ConfigCase


class DerivedTest(unittest.TestCase):
    def test_total_steps_are_rounded_up_to_whole_rounds(self):
        config = Config(total_env_steps=10_000, num_actors=3, envs_per_actor=5, rollout_length=100)
        self.assertEqual((config.envs_per_learner, config.samples_per_round), (15, 1500))
        self.assertEqual(config.num_rounds(1), 7)  # 10,500 steps
        self.assertEqual((config.transitions_per_round(2), config.num_rounds(2)), (3000, 4))
        self.assertEqual(Config(total_env_steps=1).num_rounds(1), 1)
        self.assertEqual(Config(total_env_steps=2048).num_rounds(1), 1)

    def test_a_resumed_run_has_the_rounds_that_its_remaining_steps_need(self):
        config = Config(total_env_steps=10_000, num_actors=3, envs_per_actor=5, rollout_length=100)
        for env_steps, expected in ((6_000, 15), (9_999, 13), (10_000, 12), (12_000, 12)):  # of 1,500 steps each
            self.assertEqual(config.num_rounds(1, done=12, env_steps=env_steps), expected)

    def test_totals_are_shared_by_the_learners(self):
        config = Config(num_gpus=8, num_actors=64, envs_per_actor=4, rollout_length=16)
        self.assertEqual((config.actors_per_learner, config.envs_per_learner), (8, 32))
        self.assertEqual((config.samples_per_round, config.transitions_per_round(8)), (512, 4096))


class CodeTest(ConfigCase):
    def test_a_config_cannot_be_changed(self):
        with self.assertRaises(dataclasses.FrozenInstanceError):
            Config().seed = 2

    def test_values_get_their_canonical_type_and_a_copy(self):
        kwargs = {"range": (0, 1.5)}
        config = Config(gamma=1, hidden_sizes=[32], env_kwargs=kwargs)
        kwargs["range"] = None
        self.assertEqual((config.gamma, config.hidden_sizes, config.env_kwargs), (1.0, (32,), {"range": [0, 1.5]}))
        self.assertIs(type(config.gamma), float)

    def test_values_are_checked_in_code_too_all_at_once(self):
        with self.assertRaises(ConfigError) as caught:
            Config(gamma=1.2, seed=True, num_gpus=3, num_actors=2, env_kwargs={"f": print})
        for part in ("gamma: got 1.2", "seed: got True", "env_kwargs: got", "num_actors: 2"):
            self.assertIn(part, str(caught.exception))

    def test_origins_tell_what_code_chose(self):
        config = Config(seed=5)
        self.assertEqual((config.origins["seed"], config.origins["gamma"]), ("code", "default"))

    def test_a_config_travels_to_other_processes(self):
        config = pickle.loads(pickle.dumps(Config(env_kwargs={"a": [1]}, seed=4)))
        self.assertEqual(config, Config(env_kwargs={"a": [1]}, seed=4))

    def test_nothing_in_a_config_can_be_changed(self):
        config = Config(env_kwargs={"a": [1], "b": {"c": 2}})
        for change in (
            lambda: config.env_kwargs.update(a=2),
            lambda: config.env_kwargs["a"].append(2),
            lambda: config.env_kwargs["b"].pop("c"),
            lambda: config.origins.clear(),
            lambda: config.external.setdefault("toy", 1),
        ):
            with self.assertRaisesRegex(TypeError, "settings cannot be changed; dataclasses.replace"):
                change()
        self.assertEqual(config.env_kwargs, {"a": [1], "b": {"c": 2}})

    def test_an_environment_gets_a_copy_that_it_may_change(self):
        config = Config(env_kwargs={"a": [1], "b": {"c": 2}})
        kwargs = config.env_arguments["env_kwargs"]
        kwargs["a"].append(2)
        kwargs["b"]["d"] = 3
        self.assertEqual([type(kwargs), type(kwargs["a"]), type(kwargs["b"])], [dict, list, dict])
        self.assertEqual(config.env_kwargs, {"a": [1], "b": {"c": 2}})

    def test_names_from_before_there_were_sections_work_in_code(self):
        config = Config(clip_range=0.1, num_epochs=3)
        self.assertEqual((config.ppo.clip_range, config.ppo.num_epochs), (0.1, 3))
        self.assertEqual((config.clip_range, config.minibatch_size, config.disco_batch_size), (0.1, 64, 64))
        config = dataclasses.replace(config, clip_range=0.3, seed=2)
        self.assertEqual((config.clip_range, config.ppo.num_epochs, config.seed), (0.3, 3, 2))
        self.assertEqual(dataclasses.replace(config, ppo=PPOSettings()), Config(seed=2))
        with self.assertRaisesRegex(AttributeError, "no attribute 'clip_rnage'"):
            _ = config.clip_rnage

    def test_a_section_is_given_as_an_object_or_a_mapping(self):
        expected = Config(clip_range=0.1)
        self.assertEqual(Config(ppo=PPOSettings(clip_range=0.1)), expected)
        self.assertEqual(Config(ppo={"clip_range": 0.1}), expected)
        with self.assertRaisesRegex(ConfigError, "code: ppo.clip_range: got 2; allowed: a number > 0 and <= 1"):
            Config(ppo=PPOSettings(clip_range=2))
        with self.assertRaisesRegex(ConfigError, "code: ppo: a section of settings"):
            Config(ppo=3)

    def test_every_value_has_the_name_of_its_setting(self):
        values = Config(clip_range=0.1, seed=3).values()
        self.assertEqual([*values], [one.name for one in describe_settings()])
        self.assertEqual((values["ppo.clip_range"], values["seed"], values["disco.batch_size"]), (0.1, 3, 64))


class ShippedConfigsTest(unittest.TestCase):
    def test_every_file_loads_and_its_mini_batches_fit(self):
        paths = sorted((ROOT / "configs").glob("*.yaml"))
        self.assertGreaterEqual(len(paths), 15)
        for path in paths:
            with self.subTest(path.name):
                config = load_config(path)
                remarks = config.ppo.warnings(config.samples_per_round) if config.learner == "ppo" else []
                self.assertEqual(remarks, [])
                self.assertEqual(config.name, path.stem)

    def test_half_cheetah_takes_2048_samples_a_round(self):
        config = load_config(ROOT / "configs/half_cheetah.yaml")
        self.assertEqual((config.num_actors, config.num_envs, config.rollout_length), ("auto", 16, 128))
        self.assertEqual((config.samples_per_round, config.total_env_steps), (2048, 1_000_000))

    def test_the_smoke_run_is_six_rounds_of_256_samples(self):
        config = load_config(ROOT / "configs/smoke.yaml")
        self.assertEqual((config.samples_per_round, config.num_rounds(1)), (256, 6))

    def test_what_counts_as_solved_is_what_gymnasium_registers(self):
        import gymnasium

        for path in (ROOT / "configs").glob("*.yaml"):
            config = load_config(path)
            with self.subTest(path.name):
                module, _, name = config.env_id.rpartition(":")
                if name.isidentifier():  # a vectorised class, which is not registered
                    self.assertIsNone(config.solved_return)
                    continue
                if module:
                    importlib.import_module(module)
                spec = gymnasium.spec(name)
                self.assertIn(config.solved_return, (None, spec.reward_threshold))

    def test_relative_paths_work_from_another_folder(self):
        path = os.path.relpath(ROOT / "configs" / "ant.yaml")
        self.assertEqual(load_config(path).origins["gamma"].split(":")[0], os.path.relpath(ROOT / "configs/base.yaml"))


if __name__ == "__main__":
    unittest.main()
