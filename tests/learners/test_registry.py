"""The table of learners, and whole runs of the second one: DiscoRL on Catch, from its command line to its files."""

import os
import signal
import tempfile
import unittest
from pathlib import Path

import torch

from ddp_ppo.config.load import load_config
from ddp_ppo.config.sections import OWN
from ddp_ppo.config.settings import Config, ConfigError
from ddp_ppo.learners.disco.agent import AgentSpec, acting_parameters
from ddp_ppo.learners.registry import LEARNERS, learner_kind
from ddp_ppo.protocols import EnvSpec
from ddp_ppo.runs.files import CheckpointError
from ddp_ppo.runs.model import load_model
from ddp_ppo.training.plan import prepare
from ddp_ppo.training.plan_text import plan_text
from tests.support.disco_golden import WEIGHTS, needs_weights
from tests.support.process import ROOT, FolderTestCase, read_csv, succeeded, without_times
from tests.support.results import differences, last_checkpoint, load, numbers

# 1 actor x 2 environments x 7 steps = 14 samples a round; an episode of Catch has 7 steps.
CATCH = f"""
env_id: ddp_ppo.tasks.catch:Catch-v0
learner: disco
device: cpu
num_actors: 1
envs_per_actor: 2
rollout_length: 7
total_env_steps: 840
hidden_sizes: [12, 9]
learning_rate: 1e-2
learning_rate_schedule: linear
disco_weights: {WEIGHTS}
disco_batch_size: 4
disco_replay_capacity: 10
learner_threads: 1
eval_interval: 30
eval_episodes: 2
checkpoint_interval: 5
"""
SPEC = AgentSpec(64, 3, (12, 9))


class TableTest(unittest.TestCase):
    def test_every_choice_of_the_setting_has_a_row(self):
        self.assertEqual(tuple(LEARNERS), tuple(OWN))

    def test_a_name_finds_its_row_and_the_row_the_settings_of_its_section(self):
        for name, kind in LEARNERS.items():
            self.assertEqual((learner_kind(name), kind.name), (kind, name))
            self.assertIs(kind.settings, OWN[name].settings)

    def test_an_attribute_of_a_module_is_a_learner_too(self):
        kind = learner_kind("ddp_ppo.learners.ppo.kind:KIND")
        self.assertEqual((kind.name, kind.settings), ("ppo", LEARNERS["ppo"].settings))

    def test_what_is_not_a_learner_is_named_with_what_is_wrong(self):
        for name, words in {
            "sac": "learner: sac is not one of ppo, disco, nor module:attribute",
            "no.such_module:KIND": "no.such_module:KIND cannot be imported: ModuleNotFoundError: No module named 'no'",
            "math:KIND": "learner: math:KIND cannot be imported: AttributeError: module 'math' has no attribute 'KIND'",
            "math:pi": "learner: math:pi is a float, not a ddp_ppo.learners.interface.LearnerKind",
        }.items():
            with self.subTest(name), self.assertRaisesRegex(ConfigError, words):
                learner_kind(name)

    def test_a_run_that_ends_before_the_replay_holds_a_batch_is_told(self):
        for rounds, words in {31: ["nothing is trained.* in round 32, the run has 31"], 32: []}.items():
            sizes = {"num_actors": 1, "envs_per_actor": 2, "rollout_length": 28}
            config = Config(learner="disco", total_env_steps=rounds * 56, **sizes)
            notes = LEARNERS["disco"].notes(config, "cpu")
            self.assertEqual(len(notes), len(words))
            for note, word in zip(notes, words, strict=True):
                self.assertRegex(note, word)

    def test_every_rollout_holds_what_an_actor_writes(self):
        env = EnvSpec("A", 3, "discrete", 2)
        for name, kind in LEARNERS.items():
            with self.subTest(name):
                fields = {field.name for field in kind.rollout_fields(kind.network(Config(learner=name), env))}
                self.assertLessEqual({"obs", "act", "reward", "terminated", "truncated", "final_obs"}, fields)


class RefusalTest(unittest.TestCase):
    """What DiscoRL refuses before anything is started."""

    def complaint(self, error=ConfigError, environ=None, **settings):
        options = {"learner": "disco", "disco_weights": str(WEIGHTS), "device": "cpu"}
        with self.assertRaises(error) as caught:
            prepare(Config(**{"env_id": "CartPole-v1", **options, **settings}), environ=environ or {})
        return str(caught.exception)

    def test_continuous_actions_with_the_reason(self):
        line = self.complaint(env_id="tests.support.fixtures:Echo-v0")
        self.assertRegex(
            line, "disco needs discrete actions, tests.support.fixtures:Echo-v0 has 1 continuous: the rule reads"
        )
        self.assertIn("discretize_actions: 3 makes choices of a few dimensions", line)
        self.assertNotIn("\n", line)

    def test_missing_weights_with_how_to_get_them(self):
        line = self.complaint(disco_weights=None, environ={"XDG_CACHE_HOME": "/nonexistent"})
        self.assertRegex(line, "/nonexistent/ddp_ppo/disco_103.npz: no such file; .*`ddp-ppo disco-weights`")

    def test_settings_that_belong_to_the_other_learner(self):
        self.assertIn(
            'clip_range: has no effect with learner: "disco", as it belongs to PPO; remove it',
            self.complaint(clip_range=0.3),
        )
        with self.assertRaisesRegex(ConfigError, 'disco_batch_size: has no effect with learner: "ppo", .* DiscoRL'):
            Config(disco_batch_size=32)

    def test_inherited_settings_of_the_other_learner_are_dropped(self):
        with tempfile.TemporaryDirectory(prefix="ddp_ppo_test_") as folder:
            path = Path(folder) / "child.yaml"
            path.write_text(f"inherits: {ROOT}/configs/base.yaml\nlearner: disco\nlearning_rate_schedule: constant\n")
            config = load_config(path)
        self.assertEqual((config.ppo.value_coef, config.gamma), (0.5, 0.99))  # base.yaml: 0.25 and 0.99

    def test_what_the_rule_cannot_do(self):
        self.assertIn("adaptive follows PPO's KL", self.complaint(learning_rate_schedule="adaptive"))
        self.assertIn("needs at least one layer", self.complaint(hidden_sizes=()))
        self.assertIn(
            "disco.replay_capacity: 8 never holds disco.batch_size: 9",
            self.complaint(disco_batch_size=9, disco_replay_capacity=8),
        )


class DiscoFolderTestCase(FolderTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.catch = cls.config("catch", CATCH)

    @classmethod
    def home(cls, name):
        return cls.work / "output" / f"catch-{name}"

    @classmethod
    def trained(cls, name, *words, nproc=None):
        """A run to its end; its folder."""
        succeeded(cls.start(cls.catch, f"run_name={name}", *words, nproc=nproc))
        return cls.home(name)


@needs_weights
class RunTest(DiscoFolderTestCase):
    """60 rounds, 59 updates: beside an unbroken run one that was killed and went on, and what starts from its files."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        program = cls.start(cls.catch, "run_name=parts")
        program.wait_until(lambda: "round 18/60" in program.out, "round 18")
        os.kill(program.process.pid, signal.SIGKILL)
        program.end()
        cls.whole, cls.parts = cls.home("whole"), cls.home("parts")
        second = (f"init_from={cls.whole}", "total_env_steps=14", "seed=5")  # no update yet
        cls.ended = cls.run_all(
            ["train", cls.catch, "run_name=whole"],
            ["train", cls.catch, "run_name=second", *second],
            ["evaluate", cls.whole],
        )
        cls.resumed = succeeded(cls.start(cls.catch, "run_name=parts", "resume=auto"))
        cls.rows = read_csv(cls.whole / "metrics.csv")

    def test_a_killed_run_goes_on_and_ends_with_the_same_state_as_the_unbroken_one(self):  # C18
        self.assertRegex(self.resumed.out, r"resuming from .* after round (15|20)\n")
        self.assertEqual(differences(last_checkpoint(self.whole), last_checkpoint(self.parts)), [])
        expected, found = (without_times(read_csv(run / "metrics.csv")) for run in (self.whole, self.parts))
        self.assertEqual(found, expected)
        self.assertEqual(len(found), 60)

    def test_training_starts_with_the_second_round_and_every_round_reports_the_same_metrics(self):
        self.assertEqual(numbers(self.rows, "train/gradient_steps"), [0.0] + [1.0] * 59)
        self.assertEqual(numbers(self.rows, "train/replay_size")[:6], [2, 4, 6, 8, 10, 10])
        self.assertEqual(self.rows[0]["train/loss"], "")
        self.assertTrue(all(row["train/loss"] for row in self.rows[1:]))
        self.assertEqual(numbers(self.rows, "rollout/episodes"), [2.0] * 60)

    def test_metrics_are_documented(self):
        text = (ROOT / "docs" / "metrics.md").read_text()
        self.assertEqual([name for name in self.rows[0] if f"`{name}`" not in text and "reward/" not in name], [])

    def test_model_and_checkpoint_hold_the_policy_of_the_agent(self):
        learner = last_checkpoint(self.whole)["ranks"][0]["learner"]
        expected = torch.from_numpy(acting_parameters(SPEC, learner["agent"].numpy()))
        self.assertTrue(torch.equal(learner["parameters"], expected))
        for path in (self.whole / "model.pt", max((self.whole / "checkpoints").iterdir())):
            model = load_model(path)
            self.assertEqual(model.network, SPEC.acting_network)
            self.assertTrue(torch.equal(torch.from_numpy(model.parameters), expected))
        self.assertEqual(load(self.whole / "model.pt")["spec"]["learner"], "disco")

    def test_the_best_model_evaluates_to_the_logged_number(self):  # C26
        best = max(value for value in numbers(self.rows, "eval/return_mean") if value is not None)
        said = self.ended.out.partition("$ evaluate")[2]
        self.assertRegex(said, rf"mean\s+{best:g}|{best:.1f}")

    def settings(self, **settings):
        return load_config(self.catch, [f"{key}={value}" for key, value in settings.items()])

    def test_a_further_run_starts_from_the_agent_of_a_checkpoint(self):
        source = last_checkpoint(self.whole)
        plan = prepare(self.settings(init_from=self.whole), environ={})
        start = plan.starting_point()
        self.assertTrue(torch.equal(torch.from_numpy(start.parameters), source["ranks"][0]["learner"]["agent"]))
        self.assertEqual(start.obs_rms_state["count"], 840)
        fresh = prepare(self.settings(init_from=self.whole, init_statistics="restart"), environ={}).starting_point()
        self.assertEqual(fresh.obs_rms_state["count"], 0)
        second = last_checkpoint(self.home("second"))["ranks"][0]["learner"]
        self.assertTrue(torch.equal(second["agent"], source["ranks"][0]["learner"]["agent"]))
        self.assertEqual(float(second["step"]), 0.0)

    def refusal(self, **settings):
        with self.assertRaises(CheckpointError) as caught:
            prepare(self.settings(**settings), environ={})
        return str(caught.exception)

    def test_what_does_not_fit_is_refused(self):
        for key in ("init_from", "resume"):
            with self.subTest(key):
                self.assertRegex(self.refusal(**{key: self.whole, "hidden_sizes": "[12, 8]"}), "parameters")
                self.assertRegex(self.refusal(**{key: self.whole, "hidden_sizes": "[11, 9]"}), "has another shape")
        self.assertIn("neither a run folder nor a checkpoint", self.refusal(init_from=self.whole / "model.pt"))
        self.assertIn("neither a run folder nor a checkpoint", self.refusal(init_from=self.folder / "gone"))

    def test_the_other_learner_does_not_go_on_with_it(self):
        other = "is of learner: disco"
        for key, words in (("resume", f"{other}, this configuration of ppo"), ("init_from", other)):
            with self.subTest(key), self.assertRaisesRegex(CheckpointError, words):
                config = {"env_id": "ddp_ppo.tasks.catch:Catch-v0", "device": "cpu", "hidden_sizes": (12,)}
                prepare(Config(**config, activation="relu", **{key: str(self.whole)}), environ={})

    def test_the_plan_shows_the_agent_and_its_update(self):
        text = plan_text(prepare(self.settings(), environ={}))
        self.assertIn(f"12x9 relu, {SPEC.num_parameters:,} parameters", text)
        self.assertIn("1 x 4 trajectories of the last 10, 7 steps each, by torch, cores: 1", text)


@needs_weights
class OtherTasksTest(DiscoFolderTestCase):
    """A task with a Box action, made discrete, and two tasks at once."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        runs = {
            "box": ("env_id=Pendulum-v1", "discretize_actions=3", "max_episode_steps=20"),
            "both": ("env_ids=[ddp_ppo.tasks.catch:Catch-v0, tests.support.fixtures:ShortCatch-v0]",),
        }
        few = ("total_env_steps=112", "eval_interval=0")
        cls.run_all(*(["train", cls.catch, f"run_name={name}", *few, *words] for name, words in runs.items()))

    def rows(self, name):
        rows = read_csv(self.home(name) / "metrics.csv")
        self.assertEqual(numbers(rows, "train/gradient_steps")[-1], 1.0)
        return rows

    def test_a_box_action_is_a_choice_where_that_is_asked_for(self):
        self.rows("box")
        model = load_model(self.home("box"))
        self.assertEqual((model.network.head, model.network.action_size), ("categorical", 3))
        self.assertEqual(model.env_arguments["discretize_actions"], 3)

    def test_one_agent_is_trained_on_two_tasks(self):
        rows = self.rows("both")
        for name in ("ddp_ppo.tasks.catch:Catch-v0", "tests.support.fixtures:ShortCatch-v0"):
            self.assertIn(numbers(rows, f"reward/episode_return/{name}")[-1], (-1.0, 0.0, 1.0))


IMAGE = """
env_id: ddp_ppo.tasks.catch:Catch-v0
env_kwargs: {is_image: true}
device: cpu
num_actors: 1
envs_per_actor: 2
rollout_length: 7
total_env_steps: 140
minibatch_size: 14
num_epochs: 2
hidden_sizes: [12]
conv_channels: [4, 5]
normalize_obs: false
eval_interval: 5
eval_episodes: 2
checkpoint_interval: 5
"""


class ImageTest(FolderTestCase):
    """Convolutions in front of either learner: training, going on, and what is made of the model."""

    def look(self, name, text):
        path = self.config(name, text)
        whole, parts = (self.work / "output" / f"{name}-{run}" for run in ("whole", "parts"))
        train = ["train", path, "learning_rate_schedule=constant"]
        self.run_all([*train, "run_name=whole"], [*train, "run_name=parts", "total_env_steps=70"])
        ended = self.run_all([*train, "run_name=parts", "resume=auto"], ["evaluate", whole])
        self.assertEqual(differences(last_checkpoint(whole), last_checkpoint(parts)), [])
        for place in (whole / "model.pt", max((whole / "checkpoints").iterdir())):
            model = load_model(place)
            self.assertEqual((model.network.conv_channels, model.network.image), ((4, 5), (8, 8, 1)))
            self.assertEqual(model.env.image, (8, 8, 1))
        self.assertIn("the same to the last bit", ended.out)

    def test_ppo(self):
        self.look("ppo", IMAGE)

    @needs_weights
    def test_disco(self):
        text = IMAGE.replace("minibatch_size: 14\nnum_epochs: 2\n", "disco_batch_size: 4\ndisco_replay_capacity: 10\n")
        self.look("disco", f"{text}learner: disco\ndisco_weights: {WEIGHTS}\nlearner_threads: 1\n")

    def test_its_gradient_steps_are_torch_s(self):
        settings = {"env_id": "ddp_ppo.tasks.catch:Catch-v0", "env_kwargs": {"is_image": True}, "conv_channels": (4,)}
        text = plan_text(prepare(Config(device="cpu", **settings), environ={}))
        self.assertIn("convolutions 4, 64x64 tanh", text)
        self.assertIn("gradient steps per round, by torch", text)
        flat = prepare(Config(device="cpu", **{**settings, "conv_channels": ()}), environ={})
        self.assertIn("images [8, 8, 1] are flattened for an MLP; conv_channels: [16, 32]", "".join(flat.notes))


@needs_weights
class SeveralLearnersTest(DiscoFolderTestCase):
    """Two learners on the CPU, which average inside their updates."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        words = ("num_gpus=2", "num_actors=2", "total_env_steps=280")
        cls.ranks = last_checkpoint(cls.trained("two", *words, nproc=2))["ranks"]
        cls.rows = read_csv(cls.home("two") / "metrics.csv")

    def test_learners_are_equal_after_every_round(self):  # C12
        self.assertEqual(numbers(self.rows, "sync/distinct_parameters"), [1.0] * 10)
        self.assertEqual(numbers(self.rows, "train/gradient_steps"), [0.0] + [2.0] * 9)

    def test_they_have_everything_in_common_but_what_they_have_seen(self):
        first, second = (rank["learner"] for rank in self.ranks)
        found = differences(first, second)
        self.assertTrue(found)
        self.assertLessEqual({path.split("/")[1] for path in found}, {"replay", "has_ended"})


@needs_weights
class SettingsTest(DiscoFolderTestCase):
    """Settings that steer what is learned: the agent at the end must differ."""

    def test_each_has_an_effect(self):
        words = {
            "batch": "disco_batch_size=3",
            "replay": "disco_replay_capacity=0",
            "updates": "disco_updates_per_round=2",
            "lambda": "disco_retrace_lambda=0.5",
            "gamma": "gamma=0.9",
        }
        few = ["train", self.catch, "total_env_steps=70", "eval_interval=0"]
        self.run_all([*few, "run_name=plain"], *([*few, f"run_name={name}", word] for name, word in words.items()))
        agents = {name: last_checkpoint(self.home(name))["ranks"][0]["learner"]["agent"] for name in ("plain", *words)}
        for name, word in words.items():
            with self.subTest(word):
                self.assertFalse(torch.equal(agents[name], agents["plain"]))


if __name__ == "__main__":
    unittest.main()
