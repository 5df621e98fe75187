"""What becomes of every setting where a run goes on: it takes effect, is refused, or keeps the run's value."""

import unittest
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from ddp_ppo.config.load import load_config
from ddp_ppo.config.settings import Config, ConfigError, describe_settings
from ddp_ppo.errors import EnvError
from ddp_ppo.runs.checkpoint import find_checkpoint
from ddp_ppo.training.plan import prepare
from ddp_ppo.training.resume import restore_actors, restore_learner
from ddp_ppo.training.resumed_settings import continued, settings_content
from tests.support.process import FolderTestCase, read_csv
from tests.support.results import numbers

TASK = """
env_id: InvertedPendulum-v5
num_actors: 2
envs_per_actor: 2
rollout_length: 16
total_env_steps: 128
minibatch_size: 32
num_epochs: 2
target_kl: 0.01
learning_rate: 0.001
learning_rate_schedule: adaptive
hidden_sizes: [8]
eval_interval: 0
eval_episodes: 1
"""
# Another value of each setting that a run may change, where another one is needed.
IN_FORCE = {
    "env_kwargs": "{reset_noise_scale: 0.02}", "env_backend": "gymnasium", "max_episode_steps": "50",
    "remove_profiler_clock": "false", "seed": "7", "device": "cpu", "total_env_steps": "512", "num_gpus": "2",
    "num_actors": "1", "actors_per_gpu": "2", "envs_per_actor": "4", "num_envs": "6", "max_env_instances": "8",
    "rollout_length": "32",
    "param_sync_interval": "2", "sync_mode": "gradients", "gamma": "0.9", "gae_lambda": "0.8", "learning_rate": "1e-5",
    "learning_rate_schedule": "constant", "normalize_reward": "false", "policy_backend": "torch",
    "metrics_path": "other.csv", "checkpoint_interval": "2", "keep_checkpoints": "5", "eval_interval": "1",
    "eval_episodes": "3", "solved_return": "900", "actor_timeout_seconds": "100", "max_actor_restarts": "0",
    "collective_timeout_seconds": "100", "learner_threads": "1", "overlap": "true", "ppo.clip_range": "0.1",
    "ppo.value_clip_range": "1", "ppo.entropy_coef": "0.1", "ppo.value_coef": "1", "ppo.max_grad_norm": "1",
    "ppo.num_epochs": "3", "ppo.minibatch_size": "16", "ppo.adam_eps": "1e-8", "ppo.target_kl": "0.02",
    "ppo.recompute_advantages": "true", "ppo.normalize_advantages": "false", "ppo.update_backend": "torch",
}  # fmt: skip
REFUSED = {
    "env_id": "InvertedDoublePendulum-v5", "env_ids": "[InvertedPendulum-v5, Reacher-v5]", "discretize_actions": "3",
    "learner": "disco", "normalize_obs": "false", "hidden_sizes": "[16]", "conv_channels": "[4]", "activation": "relu",
    "init_log_std": "-1", "init_from": "model.pt", "init_statistics": "restart",
    "disco.weights": "w.npz", "disco.batch_size": "2", "disco.replay_capacity": "2", "disco.updates_per_round": "2",
    "disco.retrace_lambda": "0.5", "image_layout": "channels_first",
}  # fmt: skip
REPLACES = {"num_envs": {"envs_per_actor"}}  # what the run so far had in place of a setting
ELSEWHERE = {"resume", "run_name", "output_dir"}  # where the run is


class EverySettingTest(FolderTestCase):
    """A run of two rounds, and each setting changed by a word as it goes on."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.file = cls.config("task", TASK)
        cls.output = cls.work / "output"
        cls.words = (f"output_dir={cls.output}", "run_name=a")
        cls.train(cls.file, *cls.words)
        cls.home = cls.output / "task-a"
        cls.checkpoint = find_checkpoint(cls.home)[0]

    def plan(self, *words):
        return prepare(load_config(self.file, (*self.words, f"resume={self.home}", *words)), environ={})

    def test_every_setting_has_its_row(self):
        self.assertEqual({*IN_FORCE, *REFUSED, *ELSEWHERE}, {one.name for one in describe_settings()})
        self.assertFalse({*IN_FORCE} & {*REFUSED})

    def test_what_a_run_may_change_is_in_force_and_named(self):
        for name, value in IN_FORCE.items():
            with self.subTest(name):
                plan = self.plan(f"{name}={value}")
                asked = load_config(self.file, (f"{name}={value}",)).values()[name]
                self.assertEqual(plan.config.values()[name], asked)
                self.assertEqual(plan.resumed.changed, {name} | REPLACES.get(name, set()))
                self.assertIn(f"settings that differ from the run so far: {name}: ", " ".join(plan.notes))

    def test_what_a_run_cannot_change_is_refused_by_name(self):  # N-07
        for name, value in REFUSED.items():
            words = "this configuration of" if name == "env_id" else f"{name}: |{name} has changed: "
            with self.subTest(name), self.assertRaisesRegex((ConfigError, EnvError), words):
                self.plan(f"{name}={value}")

    def test_the_same_words_change_nothing(self):
        plan = self.plan()
        self.assertEqual(plan.resumed.changed, frozenset())
        self.assertFalse([note for note in plan.notes if "differ" in note or "kept" in note])

    def test_a_changed_line_of_the_file_is_named_too(self):
        other = self.config("other", TASK.replace("rate: 0.001", "rate: 0.002"))
        config = load_config(other, (f"resume={self.home}",))
        self.assertEqual(prepare(config, environ={}).config.learning_rate, 0.002)

    def restored_rate(self, *words):
        """The rate with which a learner goes on; the checkpoint's is 0.0005."""
        plan, loaded = self.plan("total_env_steps=512", *words), []
        content = {"ranks": [{"learner": {"learning_rate": 0.0005}}], "sync": {}}
        learner = SimpleNamespace(is_drifting=True, load_state_dict=lambda state: loaded.append(state) or ())
        restore_learner(plan.resumed._replace(content=content), plan, learner, print)
        return loaded[0]["learning_rate"]

    def test_an_adapted_rate_goes_on_unless_the_rate_is_named(self):
        self.assertEqual(self.restored_rate(), 0.0005)
        self.assertEqual(self.restored_rate("target_kl=0.02"), 0.0005)
        self.assertEqual(self.restored_rate("learning_rate=1e-5"), 1e-5)
        self.assertEqual(self.restored_rate("learning_rate_schedule=constant"), 0.001)

    def test_episodes_start_again_where_their_seed_or_their_environment_changes(self):
        for word in ("seed=7", "env_kwargs={reset_noise_scale: 0.02}", "max_episode_steps=50"):
            said, restored = [], []
            plan = self.plan(word)
            restore_actors(plan.resumed, plan, SimpleNamespace(restore=restored.append), said.append)
            self.assertEqual(said, [f"note: {word.partition('=')[0]} changed: episodes start again"])
            self.assertEqual(restored, [])

    def test_another_folder_s_name_is_said_to_do_nothing(self):
        config = load_config(self.file, (f"output_dir={self.output}", "run_name=b", f"resume={self.home}"))
        self.assertIn(f"run_name: b has no effect: the run goes on in {self.home}", prepare(config, environ={}).notes)

    def test_a_named_rate_is_that_of_the_first_round(self):  # N-01, in a training
        copied = self.work / "copied.pt"
        copied.write_bytes(self.checkpoint.read_bytes())  # in no run folder: it knows its settings itself
        ended = self.train(
            self.file, "run_name=b", f"resume={copied}", "total_env_steps=256", "learning_rate=1e-05", "target_kl=1e9"
        )
        self.assertIn("learning_rate: 0.001 -> 1e-05", ended.out)
        rates = numbers(read_csv(self.work / "output" / "task-b" / "metrics.csv"), "train/learning_rate")
        self.assertEqual(rates[0], 1e-5)


class NamedTest(unittest.TestCase):
    """What is not named keeps the run's value."""

    def setUp(self):
        self.run = Config(name="task", env_id="CartPole-v1", gamma=0.9)

    def continued(self, now, origins):
        """Of a run whose settings have these origins."""
        settings = settings_content(self.run)
        for name, origin in origins.items():
            settings[name][1] = origin
        return continued(now, Path("checkpoint_0000001.pt"), {"settings": settings, "env_steps": 500})

    def test_a_word_of_the_first_start_stays_where_no_word_names_it_again(self):
        found = self.continued(Config(env_id="CartPole-v1"), {"gamma": "command line"})
        self.assertEqual((found.config.gamma, found.changed), (0.9, frozenset()))
        self.assertEqual(found.notes, ("kept from the run so far, as no word names it: gamma: 0.9, not 0.99",))

    def test_it_still_stays_in_the_start_after_that(self):
        self.run = self.continued(Config(env_id="CartPole-v1"), {"gamma": "command line"}).config
        self.assertEqual(self.run.origins["gamma"], "the run so far")
        self.assertEqual(self.continued(Config(env_id="CartPole-v1"), {}).config.gamma, 0.9)

    def test_a_word_wins_and_a_line_of_a_file_wins_over_another_line(self):
        now = Config(env_id="CartPole-v1", gamma=0.5)
        self.assertEqual(self.continued(now, {"gamma": "command line"}).config.gamma, 0.5)
        line = replace(now, origins={"gamma": type(now.origins["gamma"]).of("task.yaml:3", 0.5)})
        self.assertEqual(line.origins["gamma"], "task.yaml:3")
        self.assertEqual(self.continued(line, {"gamma": "task.yaml:3"}).config.gamma, 0.5)
        self.assertEqual(self.continued(line, {"gamma": "command line"}).config.gamma, 0.9)

    def test_a_finished_run_goes_on_as_far_as_this_start_asks_for_and_a_cut_one_to_its_own_end(self):
        for total, expected in ((500, 1_000_000), (501, 501)):
            self.run = replace(self.run, total_env_steps=total)
            found = self.continued(Config(env_id="CartPole-v1"), {"total_env_steps": "command line"})
            self.assertEqual(found.config.total_env_steps, expected)

    def test_what_a_run_began_with_is_not_asked_for_again(self):
        self.run = replace(self.run, init_from="a.pt", init_statistics="restart")
        found = self.continued(Config(env_id="CartPole-v1"), {"init_from": "command line"})
        self.assertEqual((found.config.init_from, found.changed), (None, frozenset()))

    def test_settings_of_a_section_are_kept_too(self):
        self.run = Config(env_id="CartPole-v1", clip_range=0.1)
        self.assertEqual(self.continued(Config(env_id="CartPole-v1"), {}).config.ppo.clip_range, 0.1)

    def test_nothing_is_known_of_an_old_checkpoint_that_lies_elsewhere(self):
        config = Config(env_id="CartPole-v1")
        self.assertEqual(
            continued(config, Path("/nowhere/a/checkpoint_0000001.pt"), {"env_steps": 1}), (config, frozenset(), ())
        )

    def test_a_checkpoint_holds_plain_values_with_their_origins(self):
        content = settings_content(replace(self.run, hidden_sizes=(8,), env_kwargs={"a": (1, 2)}))
        self.assertEqual(content["hidden_sizes"], [[8], "code"])
        self.assertEqual(content["env_kwargs"][0], {"a": [1, 2]})
        self.assertEqual(content["seed"], [1, "default"])


if __name__ == "__main__":
    unittest.main()
