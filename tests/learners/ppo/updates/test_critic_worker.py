"""Idle actors that help the learner to train: the same training as alone, also where one of them is lost meanwhile."""

import math
import os
import signal
import time
import unittest

import torch

from ddp_ppo.config.load import load_config
from ddp_ppo.training.plan import prepare
from ddp_ppo.training.plan_text import plan_text
from tests.support.process import FIXTURE, FolderTestCase, read_csv, succeeded, without_times
from tests.support.results import differences, last_checkpoint

# 2 actors x 2 environments x 128 steps: one mini-batch of 512 samples.
ROUND = FIXTURE.replace("tests.support.fixtures:Count", "tests.long.environments:Slow").replace(
    "num_epochs: 2", "num_epochs: 1"
)
LARGE = ROUND.replace("rollout_length: 16", "rollout_length: 128").replace("minibatch_size: 32", "minibatch_size: 512")
NUM_STEPS = 128  # of each environment in a round
# Adam moves by a share of the gradient with so large an epsilon; otherwise its size would not show.
PLAIN_STEP = ("adam_eps=1", "learning_rate=0.1", "learning_rate_schedule=constant", "max_grad_norm=null")


def num_cores(config, *words):
    """Cores of the update as the plan tells them."""
    (line,) = (
        line for line in plan_text(prepare(load_config(config, words), environ={})).splitlines() if "cores" in line
    )
    return int(line.rpartition("cores: ")[2])


class OneStepTest(FolderTestCase):
    """One round of one gradient step, on one core and on two."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.yaml = cls.config("step", LARGE)
        for threads in (1, 2):
            words = ("total_env_steps=512", "eval_interval=0", f"learner_threads={threads}", f"run_name={threads}")
            cls.train(cls.yaml, *words, *PLAIN_STEP)
        cls.learners = {
            threads: last_checkpoint(cls.work / "output" / f"step-{threads}")["ranks"][0]["learner"]
            for threads in (1, 2)
        }

    def test_a_second_core_is_used(self):
        self.assertEqual([num_cores(self.yaml, f"learner_threads={threads}") for threads in (1, 2)], [1, 2])

    def test_the_gradient_is_that_of_one_process(self):
        alone, helped = (self.learners[threads] for threads in (1, 2))
        for name in ("parameters", "exp_avg", "exp_avg_sq"):
            torch.testing.assert_close(helped[name], alone[name], rtol=0, atol=1e-6)
        self.assertGreater(float(alone["exp_avg"].abs().max()), 1e-4)


class LostWorkerTest(FolderTestCase):
    """The same training undisturbed and with the helping actor killed in the middle of the first round's update.

    In the first round there always is a helper; later ones have one where that was quicker.
    """

    ROUNDS = 2

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        text = LARGE.replace("hidden_sizes: [8]", "hidden_sizes: [256, 256]").replace(
            "num_epochs: 1", "num_epochs: 100"
        )
        config = cls.config("lost", text)
        words = (f"total_env_steps={cls.ROUNDS * 512}", "eval_interval=0", "learner_threads=2")
        cls.train(config, *words, "run_name=whole")
        cls.whole, cls.home = (cls.work / "output" / f"lost-{name}" for name in ("whole", "killed"))
        calls = cls.folder / "calls"
        calls.mkdir()
        program = cls.start(config, *words, "run_name=killed", f"env_kwargs={{folder: {calls}}}")

        sampled_at = math.inf

        def of_actors():  # Files are called <rank>-<pid>-<number>; the learner has tried an environment too.
            return [path for path in calls.iterdir() if int(path.name.split("-")[1]) != program.process.pid]

        def is_training():
            nonlocal sampled_at
            steps = [path.stat().st_size for path in of_actors()]
            if len(steps) == 4 and min(steps) == NUM_STEPS:
                sampled_at = min(sampled_at, time.monotonic())
            return time.monotonic() > sampled_at + 0.15  # the rollout is annotated, the update is at work

        program.wait_until(is_training, "first update")
        # The first actor is the one that was started first.
        os.kill(min(int(path.name.split("-")[1]) for path in of_actors()), signal.SIGKILL)
        cls.rows_then = len(read_csv(cls.home / "metrics.csv"))
        cls.ended = succeeded(program)

    def test_it_was_lost_while_it_helped_and_was_replaced(self):
        self.assertEqual(self.rows_then, 0)
        self.assertRegex(self.ended.out, "actor 0 of rank 0 .*was killed by SIGKILL while assisting the learner")
        self.assertIn('"actor_restart"', (self.home / "events.jsonl").read_text())

    def test_the_run_ends_as_if_nothing_had_happened(self):
        whole, killed = ({**last_checkpoint(run), "env_arguments": {}} for run in (self.whole, self.home))
        self.assertEqual(differences(whole, killed), [])  # one was told where to write its calls down
        expected, found = (without_times(read_csv(run / "metrics.csv")) for run in (self.whole, self.home))
        self.assertEqual(found, expected)
        self.assertEqual(len(found), self.ROUNDS)


if __name__ == "__main__":
    unittest.main()
