"""Runs of several learners: averaged parameters and gradients, what they agree on (C12), and one that fails."""

import shutil
import unittest

import numpy as np

from ddp_ppo.config.load import load_config
from ddp_ppo.evaluation.evaluate import evaluate, own_seeds
from ddp_ppo.learners.starting_point import warm_start
from ddp_ppo.runs.checkpoint import find_checkpoint
from ddp_ppo.runs.model import load_model
from tests.support.process import (
    PROGRAMS,
    TINY,
    FolderTestCase,
    Program,
    read_csv,
    succeeded,
    without_times,
)
from tests.support.results import (
    differences,
    events_of,
    last_checkpoint,
    load,
    numbers,
)


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


class TwoLearnersTest(FolderTestCase):
    """Two learners on gloo that average parameters every 4th of 8 rounds, among three processes of torchrun."""

    WORDS = ("device=cpu", "num_gpus=2", "num_actors=2", "param_sync_interval=4", "total_env_steps=512")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        config = cls.config("tiny", TINY)
        words = (
            *cls.WORDS,
            "checkpoint_interval=6",
            "learning_rate_schedule=adaptive",
            "target_kl=0.002",
            "run_name=a",
        )
        cls.ended = succeeded(cls.start(config, *words, nproc=3))
        cls.home = cls.work / "output" / "tiny-a"
        shutil.copytree(cls.home, cls.work / "other" / "tiny-a")
        resume = f"resume={cls.work}/other/tiny-a/checkpoints/checkpoint_0000006.pt"
        cls.resumed = succeeded(cls.start(config, *words, "output_dir=other", resume, nproc=2))
        cls.rows = read_csv(cls.home / "metrics.csv")

    def learners(self, number):
        """Both learners' state in a checkpoint."""
        content = load(self.home / "checkpoints" / f"checkpoint_{number:07d}.pt")
        return [rank["learner"] for rank in content["ranks"]]

    def test_learners_differ_between_syncs_and_are_equal_after_each(self):  # C12
        self.assertEqual(numbers(self.rows, "sync/distinct_parameters"), [2, 2, 2, 1, 2, 2, 2, 1])

    def test_the_checkpoints_show_the_same(self):
        self.assertIn("/parameters", differences(*self.learners(6)))
        self.assertEqual(differences(*self.learners(8)), [])

    def test_the_learning_rate_adapts_to_the_kl_of_all_learners(self):  # C14
        self.assertGreater(len(set(numbers(self.rows, "train/learning_rate"))), 1)
        self.assertNotIn("/learning_rate", differences(*self.learners(6)))

    def test_the_surplus_process_says_so_once_and_leaves(self):  # C3
        self.assertEqual(self.ended.out.count("rank 2 is surplus: the run has 2 learners"), 1)
        self.assertEqual(self.ended.out.count("torchrun started 3 processes for 2 learners"), 1)

    def test_metrics_are_those_of_all_learners(self):  # C13
        # Each learner has 1 actor x 2 environments x 16 steps.
        self.assertEqual(numbers(self.rows, "env_steps"), [64 * i for i in range(1, 9)])
        self.assertEqual(numbers(self.rows, "buffer_size"), [64] * 8)
        content = last_checkpoint(self.home)
        self.assertEqual(content["obs_rms_state"]["count"], 512)
        self.assertEqual([len(rank["actors"]) for rank in content["ranks"]], [1, 1])

    def test_learners_sample_different_episodes(self):
        first, second = (rank["actors"][0] for rank in last_checkpoint(self.home)["ranks"])
        self.assertIn("/env/obs", differences(first, second))

    def test_a_resumed_run_ends_like_the_unbroken_one(self):  # C18, O-38: from a round in which learners differ
        self.assertIn("after round 6", self.resumed.out)
        other = self.work / "other" / "tiny-a"
        self.assertEqual(differences(last_checkpoint(self.home), last_checkpoint(other)), [])
        self.assertEqual(without_times(read_csv(other / "metrics.csv")), without_times(self.rows))


class GradientsTest(FolderTestCase):
    """Two learners that average the gradient of every mini-batch and stop their epochs at a KL."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        config = cls.config("tiny", TINY)
        words = ("device=cpu", "num_gpus=2", "num_actors=2", "total_env_steps=512", "sync_mode=gradients")
        kl = ("target_kl=0.003", "num_epochs=6", "learning_rate=0.01")
        succeeded(cls.start(config, *words, *kl, nproc=2))
        (cls.home,) = (path for path in (cls.work / "output").iterdir() if path.is_dir())
        cls.rows = read_csv(cls.home / "metrics.csv")

    def test_learners_are_equal_after_every_round(self):
        self.assertEqual(numbers(self.rows, "sync/distinct_parameters"), [1] * 8)
        first, second = (rank["learner"] for rank in last_checkpoint(self.home)["ranks"])
        self.assertEqual(differences(first, second), [])

    def test_they_stop_their_epochs_together(self):  # O-34, C14
        epochs = numbers(self.rows, "train/epochs")
        self.assertTrue(all(value.is_integer() for value in epochs), epochs)
        self.assertLess(min(epochs), 6)
        # 32 samples of a learner are one mini-batch: a gradient step an epoch, of both learners
        self.assertEqual(numbers(self.rows, "train/gradient_steps"), [2 * value for value in epochs])


class OtherRankTest(FolderTestCase):
    """Two learners, and an environment of rank 1 that observes NaN in the 6th step of the second rollout."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        words = ("env_id=tests.long.environments:OnRank-v0", "env_kwargs={how: nan_obs, rank: 1, at: 22, length: 5}")
        program = cls.start(cls.config("rank", TINY), *words, "device=cpu", "num_gpus=2", "run_name=a", nproc=2)
        cls.ended = program.end(60)
        cls.home = cls.work / "output" / "rank-a"

    def test_its_fault_is_an_event_and_leaves_evidence(self):
        (event,) = (event for event in events_of(self.home) if event["event"] == "actor_error")
        self.assertEqual((event["rank"], event["round"]), (1, 1))
        self.assertRegex(event["what"], "actor 0 of rank 1 .*the observation of environment 0 is nan in step 6 of the")
        self.assertEqual([path.name for path in self.home.glob("evidence*")], ["evidence_0000002_rank_1.pt"])

    def test_what_both_had_learnt_until_then_is_saved(self):
        content = last_checkpoint(self.home)  # the settings ask for one in the fifth round
        self.assertEqual((content["round"], len(content["ranks"])), (1, 2))

    def test_the_others_say_and_write_down_who_left_and_why(self):  # C14
        self.assertEqual(self.ended.left, [])
        expected = r"rank 0: all_reduce failed .*: rank 1 has left: actor 0 of rank 1 .*environment 0 is nan"
        self.assertRegex(self.ended.err, f"(?m)^ddp-ppo: {expected}")
        (event,) = (event for event in events_of(self.home) if event["event"] == "collective_error")
        self.assertRegex(event["what"], expected)
        self.assertEqual(event["rank"], 0)


if __name__ == "__main__":
    unittest.main()
