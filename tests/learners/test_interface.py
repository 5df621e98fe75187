"""A learner from outside of the package needs six members: it trains, is saved, resumed, evaluated and reported."""

import dataclasses
import unittest

import torch

from ddp_ppo.config.settings import ConfigError
from ddp_ppo.evaluation.evaluate import evaluate, own_seeds
from ddp_ppo.learners.interface import REQUIRED_METRICS, Common, LearnerKind, require_metrics
from ddp_ppo.learners.registry import LEARNERS
from ddp_ppo.runs.model import load_model
from tests.support.process import PROGRAMS, TINY, FolderTestCase, Program, read_csv, succeeded, without_times
from tests.support.results import differences, last_checkpoint, numbers

TOY = TINY.replace("minibatch_size: 32\nnum_epochs: 2\n", "learner: tests.learners.toy:KIND\nlearning_rate: 0.05\n")
TWO = ("device=cpu", "num_gpus=2", "num_actors=2", "total_env_steps=384")


class KindTest(unittest.TestCase):
    def test_six_members_suffice(self):
        needed = [f.name for f in dataclasses.fields(LearnerKind) if f.default is dataclasses.MISSING]
        self.assertEqual(needed, ["name", "settings", "network", "rollout_fields", "annotate", "make"])

    def test_what_is_common_is_one_dictionary_in_which_what_is_trained_comes_first(self):
        common = Common({"agent": torch.zeros(3), "moment": torch.ones(3)}, {"step": torch.zeros(())})
        self.assertEqual(list(common.tensors), ["agent", "moment", "step"])
        self.assertIs(common.tensors["moment"], common.averaged["moment"])

    def test_the_learners_of_the_package_are_frozen_and_have_their_own_name(self):
        for name, kind in LEARNERS.items():
            self.assertEqual(kind.name, name)
            with self.assertRaises(dataclasses.FrozenInstanceError):
                kind.name = "other"


class MetricsTest(unittest.TestCase):
    def test_those_that_every_run_records_are_required(self):
        require_metrics("my:KIND", dict.fromkeys(REQUIRED_METRICS, 1.0))
        with self.assertRaisesRegex(ConfigError, "learner: my:KIND: the metrics of train_step lack buffer_size"):
            require_metrics("my:KIND", {"train/learning_rate": 1.0, "train/gradient_steps": 1.0})


class ToyTest(FolderTestCase):
    """10 rounds of one learner, without a break and in two parts; 6 rounds of two that are averaged in every third."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.yaml = cls.config("toy", TOY)
        cls.whole, cls.parts, cls.two = (cls.work / "output" / f"toy-{name}" for name in ("whole", "parts", "two"))
        cls.ended = succeeded(cls.start(cls.yaml, "run_name=whole"))
        program = Program(PROGRAMS / "end_after.py", cls.yaml, "7", "run_name=parts", folder=cls.work)
        cls.addClassCleanup(program.__exit__)
        succeeded(program)
        succeeded(cls.start(cls.yaml, "run_name=parts", "resume=auto"))
        succeeded(cls.start(cls.yaml, *TWO, "param_sync_interval=3", "run_name=two", nproc=2))

    def test_it_trains(self):
        rows = read_csv(self.whole / "metrics.csv")
        self.assertEqual(numbers(rows, "train/gradient_steps"), [1] * 10)
        self.assertEqual(len(set(numbers(rows, "train/toy_loss"))), 10)
        self.assertEqual(float(last_checkpoint(self.whole)["ranks"][0]["learner"]["num_steps"]), 10.0)

    def test_a_resumed_run_equals_the_unbroken_one_to_the_last_bit(self):  # C18
        self.assertEqual(differences(last_checkpoint(self.whole), last_checkpoint(self.parts)), [])
        rows = [without_times(read_csv(run / "metrics.csv")) for run in (self.whole, self.parts)]
        self.assertEqual(*rows)

    def test_several_of_them_are_averaged_where_that_is_due(self):  # C12
        rows = read_csv(self.two / "metrics.csv")
        self.assertEqual(numbers(rows, "sync/distinct_parameters"), [2, 2, 1, 2, 2, 1])
        self.assertEqual(numbers(rows, "train/gradient_steps"), [2] * 6)
        first, second = (rank["learner"] for rank in last_checkpoint(self.two)["ranks"])
        self.assertEqual(differences(first, second), [])

    def test_its_metrics_and_settings_are_in_the_report_and_its_loss_needs_no_row_of_a_table(self):
        page = (self.whole / "report.html").read_text()
        for words in ("train/toy_loss", "toy.momentum", "tests.learners.toy:KIND"):
            self.assertIn(words, page)

    def test_its_model_reaches_the_return_that_was_logged(self):  # C26
        model = load_model(self.whole, "current")
        found = evaluate(model, own_seeds(model))
        mean = sum(episode.episode_return for episode in found.episodes) / len(found.episodes)
        self.assertEqual(mean, found.logged_return)

    def test_a_checkpoint_of_another_learner_is_refused(self):
        program = self.start(self.yaml, "learner=ppo", f"resume={self.whole}")
        ended = program.end()
        self.assertEqual(ended.code, 2)
        self.assertRegex(ended.err, "is of learner: tests.learners.toy:KIND, this configuration of ppo")


if __name__ == "__main__":
    unittest.main()
