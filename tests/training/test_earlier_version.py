"""Checkpoints and models that an earlier version has written load, resume and evaluate.

What they lead to is compared within tolerances: the processor they were written on may have been another one.
"""

import math
import shutil
import unittest

import numpy as np

from ddp_ppo.evaluation.evaluate import evaluate, own_seeds
from ddp_ppo.runs.checkpoint import find_checkpoint
from ddp_ppo.runs.model import load_model
from tests.support.mujoco_tasks import needs_batch
from tests.support.process import ROOT, TINY, FolderTestCase, read_csv
from tests.support.results import numbers

BEFORE = ROOT / "tests" / "support" / "before"
WORDS = ("device=cpu", "learner_threads=1", "total_env_steps=512", "checkpoint_interval=4")
SETTINGS = {
    "alone": ("env_id=InvertedPendulum-v5", "eval_interval=4"),
    "apart": ("num_gpus=2", "param_sync_interval=3"),
}
FOURTH, EIGHTH = (f"checkpoints/checkpoint_000000{number}.pt" for number in (4, 8))


def content(run, name):
    """What the checkpoint of this name holds."""
    return find_checkpoint(run / name)[1]


class EarlierVersionTest(FolderTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.yaml = cls.config("tiny", TINY)

    def resumed(self, name, *words, run="again", nproc=None):
        """Goes on after round 4 in a copy of a run's folder; that, and what was printed."""
        home = self.work / "output" / f"{name}-{run}"
        shutil.copytree(BEFORE / name, home)
        (home / EIGHTH).unlink()
        (home / "lock").touch()  # by which a run folder is known
        ended = self.train(self.yaml, *WORDS, *SETTINGS[name], *words, f"resume={home / FOURTH}", nproc=nproc)
        self.assertIn("after round 4", ended.out)
        return home, ended

    def assert_ends_like_the_unbroken_run(self, name, home):
        expected, found = content(BEFORE / name, EIGHTH), content(home, EIGHTH)
        for number in ("round", "env_steps"):
            self.assertEqual(found[number], expected[number])
        self.assertEqual(found["obs_rms_state"]["count"], expected["obs_rms_state"]["count"])
        for rank, before in zip(found["ranks"], expected["ranks"], strict=True):
            for key in ("parameters", "exp_avg", "exp_avg_sq"):
                np.testing.assert_allclose(rank["learner"][key], before["learner"][key], rtol=1e-3, atol=1e-5)
        rows = [numbers(read_csv(run / "metrics.csv"), "train/value_loss") for run in (home, BEFORE / name)]
        np.testing.assert_allclose(rows[0], rows[1], rtol=1e-3)

    @needs_batch  # the checkpoint holds simulations of a task that runs as arrays
    def test_a_run_of_one_learner_goes_on_to_the_same_end(self):
        home, _ = self.resumed("alone")
        self.assert_ends_like_the_unbroken_run("alone", home)

    def test_a_run_of_learners_that_differ_goes_on_to_the_same_end(self):
        home, _ = self.resumed("apart", nproc=2)
        self.assert_ends_like_the_unbroken_run("apart", home)

    def test_another_number_of_learners_starts_from_the_average_of_those_that_differ(self):
        words = ("num_gpus=1", "num_actors=1", "total_env_steps=288", "learning_rate=1e-12")
        home, ended = self.resumed("apart", *words, run="one")
        self.assertIn("the checkpoint has 2 learners, this run 1", ended.out)
        _, found, _ = find_checkpoint(home)
        self.assertEqual(found["round"], 5)
        parameters = found["ranks"][0]["learner"]["parameters"]
        np.testing.assert_allclose(parameters, self.average(), rtol=0, atol=1e-7)

    def average(self):
        """The mean of both learners' parameters in round 4, which differ by much more."""
        own = [rank["learner"]["parameters"].astype(np.float64) for rank in content(BEFORE / "apart", FOURTH)["ranks"]]
        self.assertGreater(np.abs(own[0] - own[1]).max(), 1e-5)
        return (own[0] + own[1]) / 2

    def test_a_checkpoint_of_learners_that_differ_is_read_as_their_average(self):
        found = load_model(BEFORE / "apart" / FOURTH)
        np.testing.assert_allclose(found.parameters, self.average(), rtol=1e-6)

    def test_models_reach_the_return_that_their_run_has_logged(self):
        for name in SETTINGS:
            with self.subTest(name):
                model = load_model(BEFORE / name, "current")
                found = evaluate(model, own_seeds(model))
                logged = found.logged_return
                self.assertFalse(math.isnan(logged))
                mean = sum(episode.episode_return for episode in found.episodes) / len(found.episodes)
                self.assertAlmostEqual(mean, logged, delta=1.0)


if __name__ == "__main__":
    unittest.main()
