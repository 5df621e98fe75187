"""Learners that differ between two syncs: what they agree on is evaluated, kept as a model and continued (C12)."""

import shutil
import unittest

import numpy as np

from ddp_ppo.config.load import load_config
from ddp_ppo.evaluation.evaluate import evaluate, own_seeds
from ddp_ppo.learners.starting_point import warm_start
from ddp_ppo.runs.checkpoint import find_checkpoint
from ddp_ppo.runs.model import load_model
from tests.support.process import PROGRAMS, TINY, FolderTestCase, Program, read_csv, succeeded, without_times
from tests.support.results import differences, last_checkpoint, numbers


class UnsyncedTest(FolderTestCase):
    """Three learners that are averaged every third of 7 rounds; a program ends the run after the fifth one.

    It goes on, with three learners and with two. Beside it stands an unbroken run that evaluates at its end only.
    """

    WORDS = ("device=cpu", "num_gpus=3", "num_actors=3", "param_sync_interval=3", "total_env_steps=672")
    SPREAD = ("num_epochs=6", "target_kl=0.001", "learning_rate=1e-2", "learning_rate_schedule=constant")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.yaml = cls.config("tiny", TINY.replace("num_epochs: 2\n", ""))
        words = (*cls.WORDS, *cls.SPREAD, "checkpoint_interval=100")
        succeeded(cls.start(cls.yaml, *words, "eval_interval=0", "run_name=whole", nproc=3))
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=3"]
        script = [PROGRAMS / "end_after.py", cls.yaml, "5"]
        program = Program(*launcher, *script, *words, "eval_interval=5", "run_name=parts", folder=cls.work)
        cls.addClassCleanup(program.__exit__)
        cls.ended = succeeded(program)
        cls.whole, cls.parts, cls.five = (cls.work / "output" / f"tiny-{name}" for name in ("whole", "parts", "five"))
        shutil.copytree(cls.parts, cls.five)
        succeeded(cls.start(cls.yaml, *words, "eval_interval=5", "run_name=parts", "resume=auto", nproc=3))
        _, cls.content, _ = find_checkpoint(cls.five)
        cls.own = np.stack([rank["learner"]["parameters"] for rank in cls.content["ranks"]])
        cls.average = cls.own.astype(np.float64).mean(axis=0).astype(np.float32)

    def test_a_program_ends_the_run_on_all_ranks(self):
        for rank in range(3):
            self.assertIn(f"rank {rank}: rounds [1.0, 2.0, 3.0, 4.0, 5.0], signal None", self.ended.out)
        self.assertEqual(numbers(read_csv(self.five / "metrics.csv"), "sync/distinct_parameters"), [3, 3, 1, 3, 3])
        self.assertGreater(np.abs(self.own - self.average).max(axis=1).min(), 1e-4)

    def test_the_model_is_the_average_and_no_learner_s_own(self):
        for name in ("model.pt", "model_best.pt", "checkpoints"):
            with self.subTest(name):
                np.testing.assert_array_equal(load_model(self.five / name).parameters, self.average)

    def test_the_evaluation_is_that_of_the_average(self):
        model = load_model(self.five, "current")
        returns = [episode.episode_return for episode in evaluate(model, own_seeds(model)).episodes]
        logged = numbers(read_csv(self.five / "metrics.csv"), "eval/return_mean")
        self.assertEqual(logged, [None] * 4 + [float(np.mean(returns))])
        self.assertEqual(model.info["eval_return"], logged[-1])

    def test_a_run_that_starts_from_it_starts_from_the_average(self):
        config = load_config(self.yaml, [f"init_from={self.five / 'checkpoints'}"])
        np.testing.assert_array_equal(warm_start(config, load_model(self.five).network).parameters, self.average)

    def test_fewer_learners_go_on_from_the_average_and_are_told(self):
        home = self.work / "output" / "tiny-fewer"
        shutil.copytree(self.five, home)
        fewer = ("device=cpu", "num_gpus=2", "num_actors=2", f"resume={home}", "eval_interval=0")
        small = ("learning_rate=1e-12", "total_env_steps=544", "num_epochs=1")  # 480 are done, one more round is 64
        ended = self.train(self.yaml, *fewer, *small, nproc=2)
        self.assertIn("note: the checkpoint has 3 learners, this run 2: all start from the same state", ended.out)
        content = last_checkpoint(home)
        self.assertEqual((content["round"], len(content["ranks"])), (6, 2))
        for rank in content["ranks"]:
            np.testing.assert_allclose(rank["learner"]["parameters"], self.average, rtol=0, atol=1e-9)

    def test_with_three_learners_it_ends_like_the_unbroken_run_whenever_it_evaluates(self):  # C18, C26
        whole, parts = last_checkpoint(self.whole), last_checkpoint(self.parts)
        found = differences(whole, parts)
        self.assertEqual([path for path in found if path != "/best_return"], [])
        rows = [without_times(read_csv(run / "metrics.csv")) for run in (self.whole, self.parts)]
        for row in (*rows[0], *rows[1]):
            for name in [name for name in row if name.startswith("eval/")]:
                del row[name]
        self.assertEqual(*rows)

    def test_the_fewest_and_the_most_epochs_of_a_learner_show(self):  # C14
        rows = read_csv(self.whole / "metrics.csv")
        columns = [numbers(rows, name) for name in ("train/epochs_min", "train/epochs", "train/epochs_max")]
        for low, mean, high in zip(*columns, strict=True):
            self.assertTrue(1 <= low <= mean <= high <= 6, (low, mean, high))
        self.assertTrue(any(low < high for low, _, high in zip(*columns, strict=True)), columns)


if __name__ == "__main__":
    unittest.main()
