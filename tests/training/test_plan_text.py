"""What a plan says of a run."""

import math
import unittest

from ddp_ppo.config.settings import Config
from ddp_ppo.machine import this_machine
from ddp_ppo.protocols import EnvSpec
from ddp_ppo.training.plan import prepare
from ddp_ppo.training.plan_text import plan_text

CONFIG = """
env_id: tests.support.fixtures:Count-v0
num_actors: 2
envs_per_actor: 2
rollout_length: 16
total_env_steps: 100
minibatch_size: 24
num_epochs: 3
hidden_sizes: [8]
"""
COUNT = EnvSpec("tests.support.fixtures:Count-v0", 1, "discrete", 2)


class PlanTextTest(unittest.TestCase):
    def lines(self, *, environ=None, **settings):
        """The plan's lines by their name."""
        plan = prepare(self.config(**settings), environ=environ or {})
        return dict(line.split(maxsplit=1) for line in plan_text(plan).splitlines())

    def config(self, **settings):
        tiny = {
            "env_id": "tests.support.fixtures:Count-v0",
            "num_actors": 2,
            "envs_per_actor": 3,
            "rollout_length": 100,
        }
        tiny |= {"total_env_steps": 10_000, "minibatch_size": 64, "num_epochs": 4, "hidden_sizes": (8,)}
        return Config(**(tiny | {"device": "cpu"} | settings))

    def test_the_arithmetic_is_that_of_the_settings(self):
        lines = self.lines()
        # 2 actors x 3 = 6 environments; 100 x 6 = 600 samples; 600 = 9 x 64 + 24; 10,000 / 600 = 16.7
        self.assertIn("2 for each learner x 3 environments = 6 environments", lines["actors"])
        self.assertIn("100 steps x 6 environments = 600 samples", lines["round"])
        self.assertIn("4 epochs x 10 mini-batches of 64 (the last one 24) = 40 gradient steps", lines["update"])
        self.assertIn("17 rounds = 10,200 environment steps (10,000 asked for)", lines["run"])
        # actor 1-8-2: 16 + 18, critic 1-8-1: 16 + 9
        self.assertIn("59 parameters", lines["network"])

    def test_what_auto_has_come_to_is_shown(self):
        lines = self.lines(num_actors="auto", num_envs=7, envs_per_actor=None)
        number = math.ceil(7 / math.ceil(7 / this_machine().num_cores))
        self.assertRegex(lines["actors"], rf"^{number} for each learner x .* = 7 environments.*\(num_actors: auto\)$")
        uneven = self.lines(num_actors=3, num_envs=7, envs_per_actor=None)["actors"]
        self.assertEqual(uneven, "3 for each learner x 3, 2, 2 environments = 7 environments, 7 in total")

    def test_what_was_in_force_is_in_one_plain_file(self):
        found = prepare(self.config(num_actors=1, learner_threads=1), environ={}).in_force
        update = found.pop("update")
        self.assertEqual(
            found,
            {
                "learners": "1",
                "device": "cpu",
                "group_backend": "none",
                "env_backend": "gymnasium",
                "policy_backend": "numpy",
                "actors": "1 for each learner x 3 environments = 3 environments",
                "threads": "1",
            },
        )
        self.assertIn("by numpy", update)

    def test_a_batch_larger_than_the_round_is_one_batch(self):  # O-32
        self.assertIn("4 epochs x 1 mini-batches of 600 = 4 gradient", self.lines(minibatch_size=1000)["update"])

    def test_a_total_below_one_round_is_one_round(self):  # O-11
        self.assertIn("1 rounds = 600 environment steps (7 asked for)", self.lines(total_env_steps=7)["run"])

    def test_fifteen_environments_times_100_steps_are_seven_rounds_of_10000(self):  # O-11
        lines = self.lines(num_actors=5)
        self.assertIn("7 rounds = 10,500 environment steps (10,000 asked for)", lines["run"])

    def test_several_learners_share_the_actors_and_add_their_samples(self):
        environ = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"}
        lines = self.lines(environ=environ, num_gpus=2, num_actors=4)
        self.assertIn("2 on cpu, gloo", lines["learners"])
        self.assertIn("6 environments, 12 in total", lines["actors"])
        self.assertIn("600 samples per learner, 1,200 transitions in all", lines["round"])
        self.assertIn("9 rounds = 10,800", lines["run"])

    def test_the_environment_is_shown_as_it_will_be_used(self):
        text = self.lines(env_id="tests.support.fixtures:Limited-v0", max_episode_steps=7)["environment"]
        for part in (
            "tests.support.fixtures:Limited-v0",
            "gymnasium",
            "1 observations",
            "2 discrete actions",
            "limit 7",
        ):
            self.assertIn(part, text)
        self.assertIn("limit none", self.lines()["environment"])

    def test_it_says_how_images_are_read(self):  # N-08
        task = {"env_id": "ddp_ppo.tasks.catch:Catch-v0", "env_kwargs": {"is_image": True}, "conv_channels": (4,)}
        expected = "[8, 8, 1], channels last: 8 x 8 pixels of 1 channels, "
        self.assertEqual(self.lines(**task)["image"], expected + "standardised")
        self.assertEqual(self.lines(**task, normalize_obs=False)["image"], expected + "raw values times 0.003922")

    def test_the_shared_memory_is_that_of_the_arrays(self):
        # 600,000 samples: obs (+6), reward, logp, value (+6), final_value, adv, ret: float32; act: int64; 2 flags.
        # The parameters and statistics of a kilobyte do not show.
        size = 600_000 * (7 * 4 + 8 + 2) + 2 * 6 * 4
        shown = self.lines(rollout_length=100_000, learner_threads=1)["shared"].removeprefix("memory").split()[0]
        self.assertEqual(shown, f"{size / 2**20:.1f}")

    def test_pictures_are_bytes_and_the_last_ones_of_episodes_take_no_room(self):  # N-29
        task = {"env_id": "tests.support.brought:brought/Camera-v0", "env_kwargs": {"shape": [96, 96, 3]}}
        shown = self.lines(**task, conv_channels=(4,))["shared"].removeprefix("memory").split()[0]
        pictures = 101 * 6 * 96 * 96 * 3 / 2**20
        self.assertGreater(float(shown), pictures)
        self.assertLess(float(shown), pictures + 3.0)  # of parameters and statistics


if __name__ == "__main__":
    unittest.main()
