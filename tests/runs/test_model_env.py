"""The environment that a model acts in: that of its training, or another one with the same spaces."""

import unittest
from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np

from ddp_ppo.config.settings import Config, ConfigError
from ddp_ppo.envs.build import describe_env
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.runs.files import CheckpointError
from ddp_ppo.runs.model import Model
from ddp_ppo.runs.model_env import in_environment

COUNT = "tests.support.fixtures:Count-v0"


def model_in(env_id=COUNT, **settings):
    """A linear policy of zeros."""
    arguments = Config(env_id=env_id, **settings).env_arguments
    env = describe_env(**arguments)
    network = NetworkSpec.for_env(env, (), "tanh")
    parameters = np.zeros(network.num_parameters, np.float32)
    return Model(Path("zeros.pt"), "zeros", network, env, arguments, parameters, None, {})


class InEnvironmentTest(unittest.TestCase):
    def test_without_words_it_is_the_training_s(self):
        model = model_in()
        self.assertEqual(in_environment(model), model)
        self.assertEqual(in_environment(model, ["env_backend=auto", f"env_id={COUNT}"]).changed, ())

    def test_words_replace_settings_of_the_environment_and_are_told(self):
        model = in_environment(model_in(env_kwargs={"length": 3}), ["env_kwargs={length: 5}", "max_episode_steps=4"])
        self.assertEqual(model.env_arguments["env_kwargs"], {"length": 5})
        self.assertEqual(model.env.max_episode_steps, 4)
        kwargs, *limits = model.changed
        self.assertEqual(kwargs, 'env_kwargs: {"length": 3} -> {"length": 5}')
        self.assertEqual(limits, ["max_episode_steps: null -> 4", "time limit: none -> 4"])

    def test_a_limit_that_was_registered_otherwise_since_is_told(self):
        gymnasium.register("Limited-v0", "gymnasium.envs.classic_control:CartPoleEnv", max_episode_steps=7)
        self.addCleanup(gymnasium.registry.pop, "Limited-v0")
        model = model_in("Limited-v0")
        gymnasium.registry["Limited-v0"].max_episode_steps = 70
        found = in_environment(model)
        self.assertEqual((found.changed, found.env.max_episode_steps), (("time limit: 7 -> 70",), 70))

    def test_another_task_needs_the_same_spaces(self):
        model = model_in("CartPole-v1")
        other = in_environment(model, ["env_id=CartPole-v0"])
        self.assertEqual(other.env.env_id, "CartPole-v0")
        self.assertEqual(other.changed, ('env_id: "CartPole-v1" -> "CartPole-v0"', "time limit: 500 -> 200"))
        with self.assertRaisesRegex(CheckpointError, "changed: action_size 2 -> 3, obs_size 4 -> 6; a policy"):
            in_environment(model, ["env_id=Acrobot-v1"])
        with self.assertRaisesRegex(CheckpointError, r"^zeros.pt: its environment has changed: obs_size 9 -> 4; "):
            in_environment(replace(model, env=replace(model.env, obs_size=9)))

    def test_other_settings_and_wrong_words_are_refused_by_name(self):
        for word, words in (
            ("gamma=0.5", "command line: gamma: only the settings of the environment can be changed"),
            ("clip_range=0.1", "ppo.clip_range: only"),
            ("discretize_actions=3", "discretize_actions: only"),
            ("max_episode_step=3", "max_episode_step: unknown setting; did you mean max_episode_steps"),
            ("max_episode_steps=0", "max_episode_steps: got 0; allowed"),
        ):
            with self.subTest(word), self.assertRaisesRegex(ConfigError, words):
                in_environment(model_in(), [word])


if __name__ == "__main__":
    unittest.main()
