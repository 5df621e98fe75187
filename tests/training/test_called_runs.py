"""Runs that a program starts by calling `train`, and what they leave of its process."""

import json
import unittest

from ddp_ppo.sampling.episodes import evaluation_seeds
from tests.support.process import (
    FIXTURE,
    PROGRAMS,
    TINY,
    FolderTestCase,
    Program,
    read_csv,
    succeeded,
)
from tests.support.results import (
    events_of,
    last_checkpoint,
    load,
    numbers,
)


class FunctionTest(FolderTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with Program(PROGRAMS / "trainings.py", folder=cls.work) as program:
            cls.lines = succeeded(program).out.splitlines()

    def run_named(self, name):
        """The run folder with this name."""
        (run,) = (self.work / "output").glob(f"*-{name}")
        return run

    def test_a_program_of_one_s_own_trains_one_configuration_after_another(self):
        lines = [line.split() for line in self.lines[:2]]
        self.assertEqual([line[:2] for line in lines], [["1", "64"], ["1", "64"]])
        for _, _, folder, best_return in lines:
            (row,) = read_csv(self.work / folder / "metrics.csv")
            self.assertEqual(float(row["eval/return_mean"]), float(best_return))

    def test_an_error_that_nobody_has_foreseen_leaves_what_whole_rounds_have_learnt(self):
        self.assertEqual(self.lines[2], "odd")
        run = self.run_named("odd")
        self.assertEqual(last_checkpoint(run)["round"], 2)
        (event,) = events_of(run)
        self.assertEqual((event["event"], event["round"], event["what"]), ("error", 2, "RuntimeError('odd')"))

    def test_a_best_model_that_could_not_be_written_is_written_after_the_next_round(self):
        run = self.run_named("blocked")
        for best in (run / "model_best.pt", run.parent / "model_config_best.pt"):
            self.assertEqual((load(best)["spec"]["round"], load(best)["spec"]["eval_return"]), (2, 5.0))
        self.assertEqual(last_checkpoint(run)["best_return"], 5.0)
        self.assertEqual(
            len([line for line in self.lines if line.startswith("warning: cannot write ") and "model_best" in line]), 1
        )

    def test_an_evaluation_that_meets_a_nan_is_named_and_is_not_the_best(self):
        run = self.run_named("blocked")
        (event,) = events_of(run)
        self.assertEqual((event["event"], event["round"]), ("non_finite", 1))
        seed = evaluation_seeds(1, 1)[0]
        what = f"the evaluation of round 1 does not count: reward nan in step 3 of the episode of seed {seed}"
        self.assertEqual(event["what"], what)
        self.assertIn(f"note: {what}", self.lines)
        self.assertEqual(numbers(read_csv(run / "metrics.csv"), "eval/return_mean"), [None, 5, 5, 5])


class CallerTest(FolderTestCase):
    """A program that trains in threads and in its main one, and ends each run after its second of 10 rounds."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with Program(PROGRAMS / "in_a_thread.py", cls.config("tiny", TINY), folder=cls.work) as program:
            cls.ended = succeeded(program)

    def test_it_may_call_from_any_thread_and_finds_its_process_as_it_was(self):
        expected = [f"{where}: 2 rounds, changed: []" for where in ("thread", "main", "thread", "main")]
        self.assertEqual((self.ended.out.splitlines(), self.ended.err), (expected, ""))

    def test_a_run_that_it_ends_leaves_a_checkpoint_and_a_model_of_its_last_round(self):  # C17
        runs = [path for path in (self.work / "output").iterdir() if path.is_dir()]
        self.assertEqual(len(runs), 5)
        for run in runs:
            self.assertEqual(numbers(read_csv(run / "metrics.csv"), "round"), [1, 2])
            self.assertEqual((last_checkpoint(run)["round"], load(run / "model.pt")["spec"]["round"]), (2, 2))
            self.assertTrue((run / "report.html").exists())


class ActorProcessTest(FolderTestCase):
    def test_actors_have_one_thread_and_no_torch_and_the_learner_as_parent(self):  # O-46
        folder = self.folder / "witness"
        folder.mkdir()
        config = self.config("witness", FIXTURE.replace("Count-v0", "Witness-v0"))
        program = self.start(config, f"env_kwargs={{folder: {folder}}}")
        succeeded(program)
        reports = [json.loads(path.read_text()) for path in folder.glob("*.json")]
        self.assertGreaterEqual(len(reports), 4)
        self.assertEqual({report["num_threads"] for report in reports}, {1})
        self.assertEqual({report["has_torch"] for report in reports}, {False})
        self.assertEqual({report["parent"] for report in reports}, {program.process.pid})


if __name__ == "__main__":
    unittest.main()
