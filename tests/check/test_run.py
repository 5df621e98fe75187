"""`ddp-ppo check`: every planted fault is found where it belongs, and nothing is found where there is none."""

import contextlib
import functools
import io
import json
import re
import tempfile
import unittest

import gymnasium

from ddp_ppo.check.run import STAGES, CheckResult, Stage, StageResult, check, check_document, closing_text, stage_text
from ddp_ppo.check.trial import Report
from ddp_ppo.config.load import load_config
from ddp_ppo.config.settings import Config
from ddp_ppo.runs.files import CheckpointError
from tests.support.planted_faults import FAULTS, OwnBatch, Point, env_id_of
from tests.support.process import ROOT, FolderTestCase, Program

SMALL = {"num_actors": 1, "envs_per_actor": 2, "rollout_length": 32, "total_env_steps": 64, "minibatch_size": 32}
SMALL |= {"num_epochs": 1, "hidden_sizes": (8,)}
TASKS = ("ant", "cartpole", "half_cheetah", "hopper", "humanoid", "humanoid_standup", "inverted_double_pendulum")
TASKS += ("inverted_pendulum", "pusher", "reacher", "swimmer", "walker2d")
NUM_ENVIRONMENT_STAGES = [stage.name for stage in STAGES].index("training")
# What the authors of these tasks meant: goals that stay, bodies that touch nothing, a start that is always the same.
TAXI = "Taxi-v4" if "Taxi-v4" in gymnasium.registry else "Taxi-v3"  # of Gymnasium before 1.3
SMALL_TASKS = ("Pendulum-v1", "MountainCarContinuous-v0", "MountainCar-v0", "FrozenLake-v1", TAXI, "Acrobot-v1")
SMALL_MEANT = "every seed starts with the same observation|its state cannot be saved"
LIMIT_SECONDS = 150.0  # ten times what it takes
MEANT = r"never change|without an action every reward is 0"


def checked(config, stages=STAGES[:NUM_ENVIRONMENT_STAGES]):
    """The result of these stages, said to nobody."""
    with contextlib.redirect_stderr(io.StringIO()):
        return check(config, environ={}, say=lambda text: None, stages=stages)


def said(result):
    """(stage, whether it is a note, text) of all that was found; the configuration's notes are not about a task."""
    found = [(stage.name, False, fault) for stage in result.stages for fault in stage.report.faults]
    return found + [(stage.name, True, note) for stage in result.stages[1:] for note in stage.report.notes]


class PlantedFaultTest(unittest.TestCase):
    """One environment for each kind of fault; those of tests/support/planted_faults.py."""

    def test_the_environments_without_a_fault_pass_every_stage(self):
        for env in (Point, OwnBatch):
            with self.subTest(env.__name__):
                result = checked(Config(env_id=env_id_of(env), **SMALL), STAGES)
                self.assertTrue(result.has_passed, said(result))
                self.assertEqual(result.left_out, ())
                notes = [text for _, _, text in said(result) if "its state cannot be saved" not in text]
                self.assertEqual([note for note in notes if "pip install" not in note], [])

    def test_one_instance_is_enough_for_every_stage(self):  # N-02
        settings = {**SMALL, "envs_per_actor": 1}
        with tempfile.TemporaryDirectory() as folder:
            config = Config(env_id="tests.support.brought:OnlyOne-v0", env_kwargs={"folder": folder}, **settings)
            result = checked(config, STAGES)
        self.assertTrue(result.has_passed, said(result))
        self.assertEqual(result.left_out, ())
        skipped = {stage.name: stage.report.notes for stage in result.stages if stage.verdict == "SKIP"}
        self.assertEqual(skipped["independence"], ["only one instance can be open at once"])

    def test_a_class_passes_every_stage_under_the_name_of_another(self):
        result = checked(Config(env_id=f"{OwnBatch.__module__}:OwnRenamed", **SMALL), STAGES)
        self.assertTrue(result.has_passed, said(result))

    def test_a_stage_that_refuses_a_file_or_a_setting_fails(self):
        def refuse(trial, report):
            raise CheckpointError("a.pt: of another task")

        result = checked(Config(env_id=env_id_of(Point), **SMALL), [Stage("checkpoint", refuse), *STAGES])
        self.assertEqual(said(result), [("checkpoint", False, "a.pt: of another task")])
        self.assertEqual(len(result.left_out), len(STAGES))

    def find(self, env):
        fault = FAULTS[env]
        num_stages = [stage.name for stage in STAGES].index(fault.stage) + 1
        result = checked(Config(env_id=env_id_of(env), **SMALL, **fault.settings), STAGES[:num_stages])
        texts = [text for stage, is_note, text in said(result) if (stage, is_note) == (fault.stage, fault.is_note)]
        self.assertTrue(any(re.search(fault.words, text) for text in texts), said(result))
        self.assertEqual(result.has_passed, fault.is_note, said(result))

    def test_there_are_at_least_fifteen_kinds(self):
        self.assertGreaterEqual(len(FAULTS), 15)


for _env in FAULTS:
    setattr(
        PlantedFaultTest,
        f"test_{_env.__name__}_is_found_in_{FAULTS[_env].stage.replace(' ', '_')}",
        functools.partialmethod(PlantedFaultTest.find, _env),
    )


class TaskTest(unittest.TestCase):
    """The tasks that have a configuration: nothing is wrong with any of them."""

    def look(self, name):
        result = checked(load_config(ROOT / "configs" / f"{name}.yaml"))
        self.assertEqual([found for found in said(result) if not (found[1] and re.search(MEANT, found[2]))], [])
        self.assertEqual(len(result.stages), 1 + NUM_ENVIRONMENT_STAGES)

    def test_a_grid_of_choices_passes_every_stage(self):
        result = checked(Config(env_id="Pendulum-v1", discretize_actions=3, **SMALL), STAGES)
        self.assertTrue(result.has_passed, said(result))

    def test_of_several_tasks_the_first_is_looked_at_and_all_are_trained(self):
        result = checked(Config(env_ids=["CartPole-v1", "CartPole-v0"], **SMALL), STAGES)
        self.assertTrue(result.has_passed, said(result))

    def test_nothing_is_found_in_the_small_tasks_of_gymnasium(self):
        for env_id in SMALL_TASKS:
            with self.subTest(env_id):
                found = said(checked(Config(env_id=env_id, **SMALL)))
                self.assertEqual([text for *_, text in found if not re.search(f"{MEANT}|{SMALL_MEANT}", text)], [])


for _name in TASKS:
    setattr(TaskTest, f"test_{_name}_is_as_it_should_be", functools.partialmethod(TaskTest.look, _name))


class CommandTest(FolderTestCase):
    """The whole command, in a process of its own."""

    def check(self, *words):
        program = Program("-m", "ddp_ppo", "check", *words, folder=self.work)
        self.addCleanup(program.__exit__)
        ended = program.end(LIMIT_SECONDS)
        self.assertEqual(ended.left, [])
        return ended

    def test_a_task_passes_and_leaves_nothing_behind(self):
        path = self.folder / "result.json"
        ended = self.check(ROOT / "configs" / "half_cheetah.yaml", "--json", path)
        self.assertEqual((ended.code, ended.err), (0, ""), ended.out)
        self.assertEqual(list(self.work.iterdir()), [])
        for text in ("bthigh", "0.05 s, 20 Hz, 5 physics steps of 0.01 s", "axis 0 1 0 of torso", "ddp-ppo train"):
            self.assertIn(text, ended.out)
        result = json.loads(path.read_text())
        self.assertEqual((result["verdict"], result["not_tried"]), ("PASS", []))
        self.assertEqual([stage["name"] for stage in result["stages"]], ["configuration", *(s.name for s in STAGES)])
        for stage in result["stages"]:
            self.assertIn(stage["verdict"], ("PASS", "SKIP" if stage["name"] == "export" else "PASS"))
            self.assertGreaterEqual(stage["seconds"], 0.0)
        columns = result["stages"][3]["tables"]["columns"]
        self.assertEqual(len(columns), 17)
        self.assertEqual((columns[0]["name"], columns[0]["unit"]), ("rootz.position", "m"))

    def test_a_fault_ends_with_status_1_and_names_its_stage(self):
        config = self.config("nan", "env_id: tests.support.planted_faults:NanLater-v0\n")
        ended = self.check(config)
        self.assertEqual(ended.code, 1, ended.out + ended.err)
        self.assertIn("FAULT: step 17: column 0 of the observation is nan", ended.out)
        self.assertIn("not tried: model, first observation", ended.out)
        self.assertIn(f"fix first: interface; then: ddp-ppo check {config}", ended.out)

    def test_a_mistake_in_the_configuration_is_one_line_and_status_2(self):
        ended = self.check(self.config("typo", "env_id: CartPol-v1\n"))
        self.assertEqual((ended.code, ended.out, len(ended.err.splitlines())), (2, "", 1))


class TextTest(unittest.TestCase):
    def test_a_stage_shows_figures_tables_notes_and_faults_in_this_order(self):
        rows = [{"name": "hip", "unit": "", "value": "1"}, {"name": "knee", "unit": "", "value": "-20"}]
        report = Report({"steps": 7}, {"joints": rows}, ["odd"], ["wrong"])
        lines = [line.strip() for line in stage_text(StageResult("zero", "FAIL", 0.25, report)).splitlines()]
        expected = ["FAIL  zero (0.2 s)", "steps  7", "joints:", "name  value", "hip   1", "knee  -20"]
        self.assertEqual(lines, [*expected, "note: odd", "FAULT: wrong"])

    def test_a_long_table_is_cut_on_the_console_only(self):
        report = Report(tables={"columns": [{"": index} for index in range(400)]})
        self.assertIn("and 272 more, see --json", stage_text(StageResult("first", "PASS", 0.0, report)))

    def test_the_two_verdicts_are_kept_apart(self):
        passed = CheckResult((StageResult("one", "PASS", 1.0, Report()),), ())
        text = closing_text(passed, "a.yaml")
        self.assertIn("the loop runs; whether the policy reaches the task's standard only a training can tell", text)
        self.assertIn("ddp-ppo train a.yaml", text)
        self.assertNotIn("standard  ", text)
        figures = {"standard": "475 not reached after 2 rounds: 63"}
        evaluated = CheckResult((*passed.stages, StageResult("evaluation", "PASS", 1.0, Report(figures))), ())
        self.assertIn("standard       475 not reached after 2 rounds: 63", closing_text(evaluated, "a.yaml"))
        document = check_document(evaluated)
        self.assertEqual((document["verdict"], document["standard"]), ("PASS", figures["standard"]))


if __name__ == "__main__":
    unittest.main()
