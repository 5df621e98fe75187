"""What general settings must not be together."""

import unittest

from ddp_ppo.config.settings import Config
from tests.support.config_case import ConfigCase


class RulesTest(ConfigCase):
    def test_actors_must_be_shared_equally_and_the_nearest_totals_are_named(self):
        self.assert_refused("num_gpus: 4\nnum_actors: 10\n", "num_actors: 10", "num_gpus: 4", "8 or 12")
        self.assert_refused("num_gpus: 4\nnum_actors: 2\n", "task.yaml:2", "num_gpus: 4", "nearest: 4")
        self.assertIsNone(self.load("num_gpus: 4\n").actors_per_learner)

    def test_actors_per_gpu_must_agree_with_the_totals(self):
        self.assertEqual(self.load("num_gpus: 2\nnum_actors: 6\nactors_per_gpu: 3\n").actors_per_learner, 3)
        text = "num_gpus: 2\nnum_actors: 5\nactors_per_gpu: 3\n"
        self.assert_refused(text, "task.yaml:2: num_actors: 5", "num_gpus * actors_per_gpu", "set it to 6")
        self.assert_refused("actors_per_gpu: 3\nnum_actors: 2\n", "num_actors: 2", "set it to 3")
        self.assertEqual(self.load("num_gpus: 2\nactors_per_gpu: 3\n").actors_per_learner, 3)

    def test_one_actor_on_one_gpu_is_one_actor(self):
        self.assertEqual(self.load("num_gpus: 1\nnum_actors: 1\n").actors_per_learner, 1)

    def test_environments_are_those_of_a_learner_or_those_of_its_actors(self):
        for text, expected in (
            ("{}", 16),
            ("num_actors: 3", 24),  # 8 in each
            ("envs_per_actor: 4", 8),  # auto counts as 2 actors here
            ("num_actors: 6\nnum_gpus: 2\nenvs_per_actor: 4", 12),
            ("num_envs: 12", 12),
            ("num_actors: 3\nnum_envs: 12\nenvs_per_actor: 4", 12),
        ):
            with self.subTest(text):
                self.assertEqual(self.load(f"{text}\n").envs_per_learner, expected)

    def test_two_ways_to_say_how_many_environments_must_agree(self):
        text = "num_envs: 12\nenvs_per_actor: 8\n"
        self.assert_refused(text, "task.yaml:1: num_envs: 12 is not envs_per_actor: 8", "2 with auto", "remove one")
        self.assert_refused(f"{text}num_actors: 3\n", "times the actors of a learner (3)")

    def test_no_actor_is_without_an_environment(self):
        self.assert_refused("num_envs: 4\nnum_actors: 5\n", "num_actors: 5 actors", "num_envs: 4", "task.yaml:2")

    def test_a_round_of_one_sample_is_refused_naming_the_keys(self):
        text = "num_actors: 1\nenvs_per_actor: 1\nrollout_length: 1\n"
        self.assert_refused(text, "rollout_length", "num_envs")
        self.assert_refused(text.replace("num_actors: 1", "num_actors: 2\nnum_gpus: 2"), "rollout_length")
        self.assertEqual(self.load(text.replace("num_actors: 1", "num_actors: 2")).samples_per_round, 2)

    def test_a_run_cannot_go_on_and_start_from_a_model(self):
        self.assert_refused("resume: output/a\ninit_from: b.pt\n", "task.yaml:2: init_from", "resume: output/a")
        self.load("resume: auto\ninit_from: b.pt\n")

    def test_a_run_name_is_a_plain_folder_name(self):
        for text in ("a/b", "..", ".hidden", "/a", "a\\\\b", "", " a", "a "):
            self.assert_refused(f'run_name: "{text}"\n', "run_name", "plain folder name")
        self.assertEqual(self.load("run_name: lr 3e-4 (β=1)\n").run_name, "lr 3e-4 (β=1)")

    def test_a_backend_is_a_known_name_or_a_class(self):
        self.assertEqual(self.load("env_backend: my.envs:Fast\n").env_backend, "my.envs:Fast")
        for text in ("mujuco", "my.envs", "a:b:c", ":B"):
            self.assert_refused(f"env_backend: '{text}'\n", "env_backend", "module:Class")

    def test_convolutions_are_torch_s_and_have_a_layer_behind_them(self):
        text = "conv_channels: [8]\n"
        self.load(text)
        self.assert_refused(f"{text}policy_backend: numpy\n", "task.yaml:2: policy_backend: numpy has no convolutions")
        self.assert_refused(f"{text}hidden_sizes: []\n", "hidden_sizes: conv_channels needs at least one layer")

    def test_a_broken_value_does_not_cause_complaints_about_others(self):
        self.assert_refused("num_gpus: x\nnum_actors: 3\nactors_per_gpu: 1\n", "num_gpus: got x")

    def test_several_tasks_are_a_list_of_different_ids(self):
        config = self.load("env_ids: [A-v0, 'b:B-v1', C]\n")
        self.assertEqual(config.tasks, ("A-v0", "b:B-v1", "C"))
        self.assertEqual(config.env_arguments["env_id"], ["A-v0", "b:B-v1", "C"])
        self.assertEqual((self.load("env_id: A-v0\n").tasks, Config(env_ids=["A"]).tasks), (("A-v0",), ("A",)))
        for text in ("[A, A]", "[A, B, C, D, E, F]"):
            self.assert_refused(f"env_ids: {text}\n", f"task.yaml:1: env_ids: {text}: allowed: up to 5 different ids")

    def test_several_tasks_with_commas_between_them_are_refused_with_what_to_write(self):
        said = "task.yaml:1: env_id: A, B: several tasks are a list: env_ids: [A, B]"
        self.assert_refused("env_id: A, B\n", said)

    def test_each_learner_has_an_environment_of_every_task(self):
        text = "env_ids: [A, B, C]\nnum_actors: 2\nenvs_per_actor: 2\n"
        self.load(text)
        self.assert_refused(text + "num_gpus: 2\n", "3 tasks need as many environments of each learner, it has 2")

    def test_several_tasks_take_the_place_of_one(self):
        self.assert_refused("env_id: A\nenv_ids: [B, C]\n", "task.yaml:1: env_id: has no effect with env_ids: [")
        self.assertIn("command line: env_id: has no effect", self.refused("env_ids: [B, C]\n", "env_id=A")[0])
        self.assertEqual(self.load("env_id: A\n", "env_ids=[B, C]").tasks, ("B", "C"))
        self.write("env_id: A\n", "base.yaml")
        self.assertEqual(self.load("inherits: base.yaml\nenv_ids: [B, C]\n").tasks, ("B", "C"))


if __name__ == "__main__":
    unittest.main()
