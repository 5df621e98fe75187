"""Runs that go on: from their own checkpoint, or from the model of another run."""

import os
import shutil
import signal
import unittest

import torch

from tests.support.process import (
    TINY,
    FolderTestCase,
    files_in,
    read_csv,
    succeeded,
    without_times,
)
from tests.support.results import (
    differences,
    last_checkpoint,
    load,
    numbers,
    parameters_of,
    scalars,
)


class ResumeTest(FolderTestCase):
    """A run of 150 rounds beside one that was stopped by SIGTERM and went on."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        config = cls.config("tiny", TINY)
        words = ("total_env_steps=9600", "checkpoint_interval=1000", "eval_interval=0", "learning_rate=1e-3")
        whole = cls.start(config, *words, "run_name=whole")
        program = cls.start(config, *words, "run_name=parts")
        program.wait_until(lambda: "round 3/150" in program.out, "third round")
        os.kill(program.process.pid, signal.SIGTERM)
        cls.stopped = program.end()
        cls.whole, cls.parts = (cls.work / "output" / f"tiny-{name}" for name in ("whole", "parts"))
        cls.stopped_rows = read_csv(cls.parts / "metrics.csv")
        cls.stopped_checkpoint = last_checkpoint(cls.parts)
        cls.stopped_model = load(cls.parts / "model.pt")
        cls.resumed = succeeded(cls.start(config, *words, "run_name=parts", "resume=auto"))
        cls.resumed_files = {name: (cls.parts / name).read_bytes() for name in files_in(cls.parts)}
        cls.again = succeeded(cls.start(config, *words, "run_name=parts", f"resume={cls.parts}"))
        succeeded(whole)

    def test_a_run_that_was_asked_to_stop_ends_with_a_checkpoint_of_its_last_round(self):  # O-45
        self.assertEqual((self.stopped.code, self.stopped.left, self.stopped.err), (143, [], ""))
        rounds = len(self.stopped_rows)
        self.assertGreaterEqual(rounds, 3)
        self.assertLess(rounds, 150)
        self.assertEqual(self.stopped_checkpoint["round"], rounds)
        self.assertIn(f"stopped by a signal: {rounds} rounds", self.stopped.out)
        self.assertIn("resume=output/tiny-parts", self.stopped.out)

    def test_it_leaves_the_model_of_that_round_although_nothing_was_evaluated(self):  # C17
        spec = self.stopped_model["spec"]
        self.assertEqual(spec["round"], len(self.stopped_rows))
        self.assertNotIn("eval_return", spec)
        expected = self.stopped_checkpoint["ranks"][0]["learner"]["parameters"].sort().values
        self.assertTrue(torch.equal(parameters_of(self.stopped_model), expected))

    def test_a_resumed_run_goes_on_where_it_stopped_and_says_so(self):
        self.assertIn(f"after round {len(self.stopped_rows)}", self.resumed.out)
        self.assertIn(f"round {len(self.stopped_rows) + 1}/150", self.resumed.out)
        self.assertNotIn(f"round {len(self.stopped_rows)}/150", self.resumed.out)

    def test_it_ends_with_the_same_state_as_the_unbroken_run(self):
        found = differences(last_checkpoint(self.whole), last_checkpoint(self.parts))
        # Stopping evaluated once more, which may have found a better model.
        self.assertEqual([path for path in found if path != "/best_return"], [])

    def test_its_metrics_are_those_of_the_unbroken_run(self):  # C16
        expected, found = (without_times(read_csv(run / "metrics.csv")) for run in (self.whole, self.parts))
        self.assertEqual(found, expected)
        self.assertEqual(len(found), 150)

    def test_its_learning_rate_falls_as_if_it_had_not_stopped(self):  # O-53
        for i, rate in enumerate(numbers(read_csv(self.parts / "metrics.csv"), "train/learning_rate")):
            self.assertAlmostEqual(rate, 1e-3 * (150 - i) / 150, delta=1e-12)

    def test_tensorboard_goes_on_without_a_gap_or_overlap(self):  # O-55
        for tag, points in scalars(self.parts / "tensorboard").items():
            steps = [step for step, _ in points]
            self.assertEqual(steps, sorted(set(steps)), tag)
            if tag == "train/policy_loss":
                self.assertEqual(steps, [64 * i for i in range(1, 151)])
            if tag == "time/elapsed_seconds":
                times = [value for _, value in points]
                self.assertEqual(times, sorted(times))

    def test_resuming_a_finished_run_updates_nothing_and_says_so(self):
        self.assertIn("nothing to do: all 150 rounds are done", self.again.out)
        self.assertNotIn("round 150/150", self.again.out)
        for name, content in self.resumed_files.items():
            if name.startswith("checkpoints/") or name.endswith((".csv", ".pt")):
                self.assertEqual((self.parts / name).read_bytes(), content, name)


class InitFromTest(FolderTestCase):
    """A model that trains on with a step size of almost nothing."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        config = cls.config("tiny", TINY)
        cls.train(config, "run_name=first")
        first = cls.work / "output" / "tiny-first"
        cls.first = load(first / "model.pt")
        few = ("total_env_steps=64", "learning_rate=1e-12")
        cls.second, cls.third = (cls.work / "output" / f"tiny-{name}" for name in ("second", "third"))
        second = cls.start(config, "run_name=second", f"init_from={first / 'model.pt'}", *few)
        checkpoint = first / "checkpoints" / "checkpoint_0000010.pt"
        cls.from_checkpoint = cls.start(config, "run_name=third", f"init_from={checkpoint}", *few).end()
        succeeded(second)

    def test_a_fresh_run_starts_from_the_parameters_of_a_model(self):
        second = load(self.second / "model.pt")
        for trunk in ("actor", "critic"):
            for name, tensor in self.first[trunk].items():
                torch.testing.assert_close(second[trunk][name], tensor, rtol=0, atol=1e-9)
        self.assertGreater(float(self.first["actor"]["0.bias"].abs().max()), 1e-4)
        self.assertEqual(numbers(read_csv(self.second / "metrics.csv"), "round"), [1])

    def test_it_starts_from_the_statistics_of_the_model(self):
        # 640 steps were in the model, 64 came in the round after it.
        self.assertEqual(load(self.second / "model.pt")["obs_rms_state"]["count"], 704)

    def test_a_copy_of_a_checkpoint_goes_on_in_a_run_folder_of_its_own_with_the_steps_that_are_left(self):
        elsewhere = self.work / "elsewhere"
        elsewhere.mkdir()
        copy = elsewhere / "checkpoint_0000010.pt"
        shutil.copy(self.work / "output" / "tiny-first" / "checkpoints" / copy.name, copy)
        words = (f"resume={copy}", "run_name=copied", "total_env_steps=720", "envs_per_actor=1")
        ended = self.train(self.folder / "tiny.yaml", *words)
        self.assertIn("lies in no run folder: the run goes on in a new one", ended.out)
        self.assertEqual([path.name for path in elsewhere.iterdir()], [copy.name])
        rows = read_csv(self.work / "output" / "tiny-copied" / "metrics.csv")
        # 640 steps are done in 10 rounds; now a round is 2 actors x 16 steps.
        self.assertEqual(numbers(rows, "round"), [11, 12, 13])
        self.assertEqual(numbers(rows, "env_steps"), [672, 704, 736])
        for i, rate in enumerate(numbers(rows, "train/learning_rate")):
            self.assertAlmostEqual(rate, 3e-4 * (96 - 32 * i) / 736, delta=1e-12)

    def test_a_checkpoint_serves_as_well(self):
        self.assertEqual(self.from_checkpoint.code, 0, self.from_checkpoint.err)
        parameters = last_checkpoint(self.third)["ranks"][0]["learner"]["parameters"]
        first = last_checkpoint(self.work / "output" / "tiny-first")["ranks"][0]["learner"]["parameters"]
        torch.testing.assert_close(parameters, first, rtol=0, atol=1e-9)


if __name__ == "__main__":
    unittest.main()
