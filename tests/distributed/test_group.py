"""What learners tell each other: averages by hand, and two real processes on gloo."""

import math
import os
import signal
import unittest
from pathlib import Path

import numpy as np
import torch

from ddp_ppo.distributed.group import LearnerGroup, average_metrics
from ddp_ppo.distributed.topology import TrainingTopology
from tests.support.process import ROOT, TINY, FolderTestCase, Program, free_port, read_csv, succeeded, train_words
from tests.support.ranks import run_two

NAN = math.nan
ALONE = TrainingTopology(rank=0, local_rank=0, num_learners=1, device="cpu", backend="none", envs_of_actors=(1,))


class AverageMetricsTest(unittest.TestCase):
    def test_learners_count_by_their_samples(self):  # C13
        averaged = average_metrics([{"a": 1.0, "b": 0.0}, {"a": 4.0, "b": 1.0}], [100, 50])
        self.assertEqual(averaged, {"a": 2.0, "b": 1 / 3})

    def test_nothing_to_report_does_not_count(self):
        averaged = average_metrics([{"a": NAN}, {"a": 4.0}, {"a": 1.0}], [100, 50, 25])
        self.assertEqual(averaged, {"a": 3.0})

    def test_nobody_has_anything_to_report(self):
        self.assertTrue(math.isnan(average_metrics([{"a": NAN}, {"a": NAN}], [1, 1])["a"]))

    def test_learner_without_samples_does_not_count(self):
        self.assertEqual(average_metrics([{"a": 7.0}, {"a": 2.0}], [0, 3]), {"a": 2.0})
        self.assertTrue(math.isnan(average_metrics([{"a": 7.0}], [0])["a"]))

    def test_single_learner_is_its_own_mean(self):
        self.assertEqual(average_metrics([{"a": 0.1, "b": -3.0}], [64]), {"a": 0.1, "b": -3.0})

    def test_numbers_of_learners_and_weights_must_agree(self):
        for per_learner, weights in (([], []), ([{"a": 1.0}], [1, 2]), ([{"a": 1.0}, {"a": 2.0}], [1])):
            with self.assertRaisesRegex(ValueError, "weights"):
                average_metrics(per_learner, weights)


class SingleLearnerTest(unittest.TestCase):
    def test_every_call_returns_its_argument(self):
        with LearnerGroup(ALONE, timeout_seconds=1) as learners:
            tensor = torch.tensor([1.0, 2.0])
            learners.broadcast([tensor])
            learners.average(tensor)
            self.assertEqual(tensor.tolist(), [1.0, 2.0])
            self.assertEqual(learners.average_scalar(0.3), 0.3)
            np.testing.assert_array_equal(learners.exchange(np.array([1.0, -2.0])), [[1.0, -2.0]])
            self.assertEqual(learners.gather("word"), ["word"])


class TwoLearnersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ranks = run_two("ranks_speak")

    def both(self, name):
        """What the ranks saw, which must be the same."""
        self.assertEqual(self.ranks[0][name], self.ranks[1][name])
        return self.ranks[0][name]

    def test_broadcast_gives_everyone_rank_0_s_tensors(self):  # O-35
        self.assertEqual(self.both("broadcast"), [[1.0] * 3, 0.0, [[0.0, 0.0], [0.0, 0.0]]])

    def test_average_is_the_mean(self):
        self.assertEqual(self.both("average"), [2.0, 4.0, -8.0])

    def test_averages_have_the_same_bits_everywhere(self):  # C12
        self.both("digest")

    def test_scalar_is_averaged(self):
        self.assertEqual(self.both("scalar"), 0.625)

    def test_exchanged_rows_arrive_unchanged(self):
        rows = [rank["exchange"] for rank in self.ranks]
        expected = [[0.0, 2.0**48, -0.1, NAN], [1.0, 2.0**48 + 1, -0.1, math.inf]]
        for seen in rows:
            np.testing.assert_array_equal(seen, expected)

    def test_rank_0_alone_gathers_in_the_order_of_ranks(self):
        self.assertEqual(self.ranks[0]["gather"], [[0, [0, 0]], [1, [1, 1]]])
        self.assertEqual(self.ranks[1]["gather"], [])

    def test_uneven_ranks_merge_by_their_counts(self):  # O-26
        np.testing.assert_allclose(self.both("uneven"), [6, 3.333333, 22.222222], rtol=1e-6)

    def test_repeated_merges_count_every_sample_once(self):  # O-27
        data = np.concatenate([np.random.default_rng(rank).normal(5.0, 2.0, 6400) for rank in range(2)])
        np.testing.assert_allclose(self.both("repeated"), [12_800, data.mean(), data.var()], rtol=1e-9)

    def test_averaged_gradients_of_equal_data_train_like_one_learner(self):  # O-36
        self.both("gradients")
        self.assertLessEqual(self.both("difference"), 1e-6)
        self.assertGreater(self.both("moved"), 1e-4)

    def test_learner_notices_at_once_that_another_one_is_gone(self):  # C14
        self.assertIn("rank 1 is gone", self.ranks[0]["error"])
        self.assertLess(self.ranks[0]["seconds"], 30)  # the limit is 60 s


class LateLearnerTest(unittest.TestCase):
    def test_learner_that_waits_in_vain_gives_up_after_the_limit(self):  # C14
        (seen,) = run_two("rank_late")
        self.assertRegex(
            seen["error"], r"rank 0: all_reduce failed \(collective_timeout_seconds=3\): rank 1 has not come"
        )
        self.assertTrue(2.5 <= seen["seconds"] < 30)


class LeavingTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.left, cls.cut = run_two("rank_leaves"), run_two("ranks_leave")

    def test_everyone_has_rank_0_s_value(self):
        self.assertEqual([seen["shared"] for seen in self.left], [[{"folder": "of rank 0"}]] * 2)

    def test_a_learner_that_left_with_an_error_is_named_with_its_cause_at_once(self):  # C14
        self.assertRegex(self.left[0]["error"], "rank 0: all_reduce failed .*: rank 1 has left: boom-17: ")
        self.assertLess(self.left[0]["seconds"], 2.5)  # the other process lives for 3 s

    def test_what_all_have_said_can_be_collected_without_a_collective(self):
        self.assertEqual([seen["ranks"] for seen in self.cut], [[[0, [0, 0]], [1, [1, 1]]], []])

    def test_what_one_has_not_said_is_not_waited_for(self):
        self.assertEqual(self.cut[0]["late"], [])
        self.assertTrue(0.9 <= self.cut[0]["seconds"] < 10)


class StoppedLearnerTest(unittest.TestCase):
    def test_a_learner_that_is_stopped_is_named_and_killed_when_the_time_is_over(self):  # C14
        with self.assertRaisesRegex(AssertionError, r"exit code 1\n") as caught:
            run_two("rank_stopped")
        self.assertRegex(str(caught.exception), r"rank 0: all_reduce failed .*: rank 1 was stopped \(SIGSTOP\)")


class SeveralMachinesTest(FolderTestCase):
    """Two of torchrun's agents, one process each, which meet at a port: what two machines would be."""

    def launch(self, *words, folders=None, max_restarts=0):
        """Starts both agents, in folders of their own where they share no files."""
        port = free_port()
        launcher = ["-m", "torch.distributed.run", "--nnodes=2", "--nproc_per_node=1", f"--max-restarts={max_restarts}"]
        launcher += ["--rdzv_backend=c10d", f"--rdzv_endpoint=localhost:{port}", "--rdzv_id=one", ROOT / "train.py"]
        words = [*launcher, self.config("two", TINY), "device=cpu", "num_gpus=2", *words]
        programs = [Program(*words, folder=folder) for folder in folders or (self.work, self.work)]
        for program in programs:
            self.addCleanup(program.__exit__)
        return programs

    def learner(self, agent):
        """The process that an agent has started, its actors aside."""
        (pid,) = (
            pid for pid in agent.alive() if Path(f"/proc/{pid}/stat").read_text().split()[3] == str(agent.process.pid)
        )
        return pid

    @unittest.skipIf(torch.__version__.startswith("2.4."), "its agents of several machines keep no store")
    def test_all_of_them_start_again_when_a_learner_is_killed_and_go_on_with_the_same_run(self):
        agents = self.launch("run_name=killed", "total_env_steps=19_200", "eval_interval=0", max_restarts=1)
        folder = self.work / "output" / "two-killed"
        agents[0].wait_until(lambda: any(folder.glob("checkpoints/*.pt")), "checkpoint")
        os.kill(self.learner(agents[1]), signal.SIGKILL)
        ended = [agent.end() for agent in agents]
        self.assertEqual([(one.code, one.left) for one in ended], [(0, [])] * 2, ended[0].err + ended[1].err)
        self.assertRegex(ended[0].out + ended[1].out, r"resuming from .*two-killed/checkpoints/checkpoint_\d+\.pt")
        rows = read_csv(folder / "metrics.csv")
        self.assertEqual([int(row["round"]) for row in rows], [*range(1, len(rows) + 1)])
        self.assertEqual(rows[-1]["env_steps"], "19200")
        self.assertFalse((self.work / "output" / "two-killed-2").exists())

    def test_a_machine_that_does_not_see_the_checkpoint_is_named(self):
        folders = [self.folder / "a", self.folder / "b"]
        for folder in folders:
            folder.mkdir()
        words = (self.config("two", TINY), "device=cpu", "run_name=apart", "total_env_steps=320")
        with Program(*train_words(*words), folder=folders[0]) as program:
            succeeded(program)
        words = ("run_name=apart", "total_env_steps=640", "resume=auto", "collective_timeout_seconds=20")
        ended = [agent.end() for agent in self.launch(*words, folders=folders)]
        self.assertEqual([one.code for one in ended], [1, 1])
        text = ended[0].err + ended[1].err
        self.assertRegex(
            text, r"ddp-ppo: rank 1 starts after round \d+, rank 0 after round \d+: every machine has to see"
        )
        self.assertRegex(text, r"ddp-ppo: rank 0: .*rank 1 has left: rank 1 starts after round")


if __name__ == "__main__":
    unittest.main()
