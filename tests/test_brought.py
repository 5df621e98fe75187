"""Environments as users bring them, trained as they are: one instance only, processes, global draws, a bad close."""

import os
import signal
import time
import unittest
from pathlib import Path

from tests.support.brought import notes
from tests.support.process import FIXTURE, LIMIT_SECONDS, FolderTestCase, read_csv

ROBOT = FIXTURE.replace("fixtures:Count-v0", "brought:Robot-v0").replace("num_actors: 2", "num_actors: 1")
ROBOT = ROBOT.replace("envs_per_actor: 2", "envs_per_actor: 1").replace("total_env_steps: 640", "total_env_steps: 96")
ROBOT = ROBOT.replace("minibatch_size: 32", "minibatch_size: 16").replace("eval_interval: 5", "eval_interval: 2")


class RobotTest(FolderTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.place = cls.folder / "robot"
        cls.place.mkdir()
        cls.path = cls.config("robot", ROBOT)
        cls.ended = cls.train(cls.path, f"env_kwargs={{folder: {cls.place}}}", "run_name=a")  # and leaves no process

    def test_one_instance_is_enough_for_a_training_and_its_evaluations(self):  # N-02
        rows = read_csv(self.work / "output/robot-a/metrics.csv")
        self.assertEqual([bool(row["eval/return_mean"]) for row in rows], [False, True, False, True, False, True])
        self.assertIn("at most 3 open at once: 1 for training and 2 for evaluations", self.plan())
        self.assertIn("note: evaluations run in the environments that train", self.ended.out)
        self.assertIn("start again afterwards, as their state cannot be saved", self.ended.out)
        self.assertTrue((self.work / "output/robot-a/model_best.pt").exists())

    def plan(self):
        code, out, err = self.command_line("plan", self.path, f"env_kwargs={{folder: {self.place}}}")
        self.assertEqual((code, err), (0, ""))
        return out

    def test_a_close_that_raises_costs_one_warning(self):  # H-b
        self.assertEqual(self.ended.out.count("warning: environments were not closed properly"), 1)
        self.assertIn("RuntimeError: the cable is stuck", self.ended.out)
        self.assertEqual(len(list((self.work / "output/robot-a/checkpoints").glob("*.pt"))), 2)  # of rounds 5 and 6

    def test_evaluate_and_play_and_export_need_one_instance(self):  # N-02
        run, out = "output/robot-a", self.folder / "out"
        ended = self.run_all(["evaluate", run], ["play", run, "--out", out], ["export", run, "--out", out])
        self.assertIn("Robot-v0: not closed properly", ended.err)

    def test_a_learner_that_is_killed_leaves_no_process_of_its_environments(self):  # N-04
        words = self.path, f"env_kwargs={{folder: {self.folder}}}", "run_name=b", "total_env_steps=1000000"
        program = self.start(*words)
        program.wait_until(lambda: (self.work / "output/robot-b/metrics.csv").exists(), "first round")
        self.assertGreaterEqual(len(program.alive()), 4)  # the learner, the actor, and two of the environment
        os.kill(program.process.pid, signal.SIGKILL)
        program.process.wait()
        deadline = time.monotonic() + LIMIT_SECONDS
        while program.alive() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(program.alive(), [])
        Path(self.folder / "in_use").unlink()

    def test_a_close_that_hangs_is_given_up_with_a_warning(self):  # H-b
        place = self.folder / "hangs"
        place.mkdir()
        started = time.monotonic()
        ended = self.train(self.path, f"env_kwargs={{folder: {place}, how: hang}}", "run_name=c", "total_env_steps=16")
        self.assertEqual(ended.out.count("has not ended within 5 s"), 1)
        self.assertEqual(ended.out.count("it takes more than 5 s"), 1)  # of the description's
        self.assertLess(time.monotonic() - started, LIMIT_SECONDS)


class DrawnTest(FolderTestCase):
    """Two actors of two environments, whose constructor seeds NumPy's global generator with 0."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        path = cls.config("drawn", FIXTURE.replace("fixtures:Count-v0", "brought:Drawn-v0"))
        cls.notes, cls.rows = {}, {}
        for name, words in {
            "a": ["eval_interval=0"],
            "b": ["eval_interval=2"],
            "seeds": ["eval_interval=2", "seed=2"],
        }.items():
            place = cls.folder / name
            place.mkdir()
            cls.train(path, f"env_kwargs={{folder: {place}, seed: 0}}", f"run_name={name}", *words)
            cls.notes[name] = notes(place)
            cls.rows[name] = [
                row["rollout/episode_return_mean"] for row in read_csv(cls.work / f"output/drawn-{name}/metrics.csv")
            ]

    def test_an_evaluation_changes_nothing_of_training(self):  # N-06
        self.assertEqual(self.rows["a"], self.rows["b"])

    def test_another_seed_gives_another_run_whatever_the_constructor_seeds(self):  # N-06
        self.assertNotEqual(self.rows["b"], self.rows["seeds"])

    def test_every_instance_that_is_open_has_a_number_of_its_own(self):  # N-05
        built = [int(note["DDP_PPO_ENV_INDEX"]) for note in self.notes["a"]]
        self.assertEqual(built[0], 0)  # the description's, closed before the others
        self.assertEqual(sorted(built[1:5]), [0, 1, 2, 3])
        self.assertEqual(built[5:], [4, 5])

    def test_actors_compute_on_one_thread_with_one_hash_seed(self):  # N-15, N-23
        learner, *others = self.notes["a"]
        self.assertEqual((learner["OMP_NUM_THREADS"], learner["PYTHONHASHSEED"]), (None, None))
        for note in others:
            self.assertNotEqual(note["pid"], learner["pid"])
            self.assertEqual(
                (note["OMP_NUM_THREADS"], note["NUMBA_NUM_THREADS"], note["PYTHONHASHSEED"]), ("1", "1", "0")
            )


class SpoilingTest(FolderTestCase):
    def test_what_its_module_changes_in_the_process_changes_no_parameter(self):  # N-12
        path = self.config("task", FIXTURE.replace("fixtures:Count-v0", "spoiling:Echo-v0"))
        words = [path, "update_backend=torch", "policy_backend=torch", "total_env_steps=192", "num_actors=1"]
        columns = []
        for name, environ in (("plain", {}), ("spoilt", {"SPOILING": "1"})):
            ended = self.start(*words, f"run_name={name}", environ=environ).end()
            self.assertEqual(ended.code, 0, ended.err)
            rows = read_csv(self.work / f"output/task-{name}/metrics.csv")
            columns.append([(row["train/value_loss"], row["eval/return_mean"]) for row in rows])
        self.assertEqual(*columns)
        self.assertRegex(
            ended.out, "note: tests.support.spoiling:Echo-v0: importing or building it changes numpy.seterr, "
        )
        code, out, err = self.command_line("evaluate", "output/task-spoilt", environ={"SPOILING": "1"})
        self.assertEqual(code, 0, err)
        self.assertIn("the same to the last bit", out)


if __name__ == "__main__":
    unittest.main()
