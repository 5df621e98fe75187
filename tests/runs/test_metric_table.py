"""The table of metrics: complete rows, no other names in the code, rows that a learner adds."""

import ast
import re
import tempfile
import unittest
from pathlib import Path

from ddp_ppo.config.sections import canonical
from ddp_ppo.config.settings import describe_settings
from ddp_ppo.learners.registry import LEARNERS
from ddp_ppo.runs.metric_table import (
    METRICS,
    QUESTIONS,
    STAGES,
    Metric,
    charts,
    merged,
    read_table,
    row_of,
    save_table,
    title_alone,
)
from tests.support.process import ROOT

TABLES = {name: (*METRICS, *kind.metrics) for name, kind in LEARNERS.items()}
NAME = re.compile(r"(train|rollout|eval|reward|sync|time)/\w+")
STABLE_BASELINES3 = {"train/policy_gradient_loss", "train/entropy_loss"}  # what it calls its own
OWN = Metric(name="train/own", question="health", title="Own", label="mine", reduction="sum", is_log=True)


class RowsTest(unittest.TestCase):
    def test_every_name_has_one_row_with_a_meaning(self):
        for learner, table in TABLES.items():
            names = [row.name for row in table]
            self.assertEqual(len(names), len(set(names)), learner)
            for row in table:
                with self.subTest(f"{learner}: {row.name}"):
                    self.assertTrue(row.doc)
                    self.assertNotIn("|", row.doc + row.advice + row.unit, "would end a cell of the page")

    def test_a_row_that_answers_a_question_has_a_chart_and_no_other_has(self):
        for row in (row for table in TABLES.values() for row in table):
            with self.subTest(row.name):
                self.assertIn(row.question, ("", *QUESTIONS))
                self.assertEqual(bool(row.question), bool(row.title))
                self.assertTrue(not row.is_compared or row.title)

    def test_a_mark_is_a_setting(self):
        settings = {setting.name for setting in describe_settings()}
        self.assertLessEqual({canonical(row.mark) for table in TABLES.values() for row in table} - {""}, settings)

    def test_every_stage_of_a_round_has_a_row(self):
        self.assertLessEqual({f"time/{name}_seconds" for name in STAGES}, {row.name for row in METRICS})

    def test_every_metric_that_the_code_names_has_a_row(self):
        known = {row.name for table in TABLES.values() for row in table} | STABLE_BASELINES3
        files = [*(ROOT / "ddp_ppo").rglob("*.py"), *(ROOT / "scripts").glob("*.py"), ROOT / "bench" / "learning.py"]
        found = 0
        for path in files:
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and NAME.fullmatch(node.value):
                    found += 1
                    with self.subTest(f"{path.relative_to(ROOT)}:{node.lineno}"):
                        self.assertIn(node.value, known)
        self.assertGreater(found, 50)


class TableTest(unittest.TestCase):
    def test_a_metric_belongs_to_its_own_row_else_to_that_of_its_longest_beginning(self):
        table = (Metric(name="a/"), Metric(name="a/b/"), Metric(name="a/b"))
        names = {"a/x": "a/", "a/b/x": "a/b/", "a/b": "a/b", "a/": "a/"}
        self.assertEqual({name: row_of(table, name).name for name in names}, names)
        self.assertIsNone(row_of(table, "b"))
        self.assertIsNone(row_of(table, "a"))

    def test_rows_with_one_title_share_a_chart_and_charts_have_the_table_s_order(self):
        names = ["reward/b", "eval/return_mean", "reward/a", "of/tomorrow", "rollout/episode_return_mean"]
        found = {
            title: [(name, row.label_of(name)) for row, name in curves]
            for title, curves in charts(METRICS, "learn", names).items()
        }
        expected = {
            "Return": [("rollout/episode_return_mean", "training"), ("eval/return_mean", "evaluation")],
            "Terms of the reward, mean of a step": [("reward/b", "b"), ("reward/a", "a")],
        }
        self.assertEqual(list(found.items()), list(expected.items()))
        self.assertEqual(charts(METRICS, "health", names), {})

    def test_the_charts_of_a_run_are_in_the_order_in_which_they_are_looked_at(self):
        learning = ["Return", "Episode length", "Terms of the reward, mean of a step", "Return of each task"]
        ppo = ["KL divergence", "Clip fraction", "Value loss", "Explained variance", "Policy loss", "Entropy"]
        ppo += ["Action std", "Gradient norm", "Learning rate"]
        disco = ["Loss", "TD error", "Entropy", "Gradient norm", "Learning rate"]
        for learner, health in (("ppo", ppo), ("disco", disco)):
            table = TABLES[learner]
            names = [row.name + "x" * row.is_prefix for row in table]
            self.assertEqual(list(charts(table, "learn", names)), [*learning, "Terminated episodes"])
            self.assertEqual(list(charts(table, "health", names)), health)

    def test_a_chart_of_one_of_several_that_share_a_title_says_which_it_is(self):
        titles = {row.name: title_alone(METRICS, row) for row in METRICS}
        self.assertEqual(titles["rollout/episode_return_mean"], "Training return")
        self.assertEqual(titles["eval/return_mean"], "Evaluation return")
        self.assertEqual(titles["time/steps_per_second"], "Steps per second")

    def test_runs_of_several_learners_have_each_row_once(self):
        names = [row.name for row in merged(TABLES.values())]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(set(names), {row.name for table in TABLES.values() for row in table})


class FileTest(unittest.TestCase):
    def setUp(self):
        self.path = Path(self.enterContext(tempfile.TemporaryDirectory())) / "metric_table.json"

    def test_a_run_s_rows_are_read_as_they_were_written(self):
        save_table(self.path, (*METRICS, OWN))
        self.assertEqual(read_table(self.path), (*METRICS, OWN))

    def test_a_run_that_has_left_no_table_has_the_rows_of_every_run(self):
        self.assertEqual(read_table(self.path), METRICS)

    def test_what_another_release_says_of_a_metric_is_left_out(self):
        self.path.write_text('[{"name": "a", "title": "A", "colour": "red"}]')
        self.assertEqual(read_table(self.path), (Metric(name="a", title="A"),))

    def test_a_damaged_file_is_an_error(self):
        for text in ("[", '{"name": "a"}', '["a"]', '[{"title": "A"}]', "3"):
            with self.subTest(text):
                self.path.write_text(text)
                self.assertRaises(ValueError, read_table, self.path)


if __name__ == "__main__":
    unittest.main()
