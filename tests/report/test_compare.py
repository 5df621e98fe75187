"""The command: its text, page, picture and JSON from short runs, and the mistakes that it names."""

import dataclasses
import importlib.util
import json
import re
import unittest

from ddp_ppo.config.settings import Config, ConfigError
from ddp_ppo.report.compare import compare, comparison_text, document, write_page
from ddp_ppo.report.report import write_report
from ddp_ppo.runs.metric_table import METRICS, Metric
from ddp_ppo.runs.reading import read_run
from tests.support.process import TINY, FolderTestCase
from tests.support.runs import write_run

HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None


class RunsTest(FolderTestCase):
    """Two seeds, one of them trained twice."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        config = cls.config("tiny", TINY)
        for words in ("run_name=a seed=1", "run_name=b seed=2", "run_name=again seed=1", "run_name=c seed=1 gamma=0.9"):
            cls.train(config, *words.split(), "total_env_steps=320")

    def command(self, *words):
        return self.command_line("compare", *words)

    def test_a_run_that_was_done_again_is_equal_in_every_round(self):
        code, out, err = self.command("output/tiny-a", "output/tiny-again", "--json", "a.json")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("tiny-a and tiny-again are equal in all 5 common rounds", out)
        document = json.loads((self.work / "a.json").read_text())
        self.assertEqual(document["settings"], {})
        self.assertEqual([group["seeds"] for group in document["groups"]], [[1], [1]])

    def test_another_setting_is_named_with_the_round_where_runs_part(self):
        code, out, err = self.command("output/tiny-a", "output/tiny-b", "output/tiny-c", "--out", "page.html")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("differs        gamma: 0.99 | 0.9", out)
        self.assertRegex(out, r"tiny-a and tiny-c first differ in round 1: train/\w+ \S+ / \S+,\s")
        self.assertIn("verdict        No difference between tiny, gamma 0.9 and tiny, gamma 0.99 can be shown", out)
        page = (self.work / "page.html").read_text()
        for title in ("Results", "Learning curves", "Seeds", "Settings that differ", "Versions that differ"):
            self.assertIn(f"<h2>{title}</h2>", page)
        self.assertIn("Evaluation return over time", page)

    def test_the_page_lies_beside_the_runs_unless_told_otherwise(self):
        self.assertEqual(self.command("output/tiny-a", "output/tiny-b")[0], 0)
        self.assertIn("One configuration, tiny, with 2 seeds", (self.work / "output" / "compare.html").read_text())

    def test_a_picture_needs_matplotlib(self):
        code, out, err = self.command("output/tiny-a", "output/tiny-b", "--png", "a.png")
        if HAS_MATPLOTLIB:
            self.assertEqual((code, (self.work / "a.png").read_bytes()[:4]), (0, b"\x89PNG"))
        else:
            self.assertEqual((code, out), (2, ""))
            self.assertIn("pip install matplotlib", err)

    def test_mistakes_are_one_line_and_exit_2(self):
        runs = ["output/tiny-a", "output/tiny-b"]
        for words in (
            [*runs, "gone"],
            ["output/tiny-a"] * 2,
            [*runs, "--ignore", "x"],
            [*runs, "--out", "gone/a.html"],
            [*runs, "--out", "."],
        ):
            with self.subTest(words):
                code, out, err = self.command(*words)
                self.assertEqual((code, out, err.count("\n")), (2, "", 1), err)


class CompareTest(FolderTestCase):
    def made(self, name, scores, **settings):
        config = Config(num_actors=1, envs_per_actor=2, rollout_length=5, **settings)
        return read_run(write_run(self.folder / name, config, {"eval/return_mean": scores}))

    def test_what_is_compared_and_where_is_told_everywhere(self):
        comparison = compare([self.made("long", [1.0, 2.0, 3.0]), self.made("cut", [1.0], gamma=0.9)])
        self.assertIn("compared       eval/return_mean at 10 environment steps", comparison_text(comparison))
        self.assertIn("note           all are compared at 10 environment steps", comparison_text(comparison))
        self.assertTrue(document(comparison)["compared"].startswith("eval/return_mean at 10 environment steps"))
        self.assertIn("all are compared at 10 environment steps", document(comparison)["notes"][0])
        write_page(comparison, self.folder / "told.html")
        page = (self.folder / "told.html").read_text()
        self.assertIn("eval/return_mean at 10 environment steps", page)
        self.assertIn("all are compared at 10 environment steps", page)

    def test_the_value_loss_has_a_logarithmic_axis_as_in_the_report(self):
        run = self.made("loss", [1.0, 2.0])
        write_page(compare([run]), self.folder / "loss.html")
        for page in (self.folder / "loss.html", write_report(run)):
            (figure,) = [part for part in page.read_text().split("<figure") if "<b>Value loss</b>" in part]
            self.assertIn("Logarithmic axis.", figure)

    def test_what_the_rows_of_a_run_have_to_compare_is_drawn_for_the_groups_that_have_it(self):
        own = Metric(name="train/own", question="health", title="Own", is_compared=True, is_log=True)
        config = Config(num_actors=1, envs_per_actor=2, rollout_length=5)
        metrics = {"eval/return_mean": [1.0, 2.0], "rollout/episode_length_mean": [3.0, 4.0]}
        table = (*METRICS, own)
        one = write_run(self.folder / "own", config, {**metrics, "train/own": [1.0, 2.0]}, table=table, name="own")
        other = write_run(self.folder / "other", dataclasses.replace(config, gamma=0.9), metrics, name="other")
        write_page(compare([read_run(other), read_run(one)]), self.folder / "own.html")
        figures = {
            re.search(r"<b>(.*?)</b>", part)[1]: part
            for part in (self.folder / "own.html").read_text().split("<figure")[1:]
        }
        expected = ["Evaluation return", "Evaluation return over time", "Training episode length"]
        self.assertEqual(list(figures), [*expected, "KL divergence", "Value loss", "Own"])
        self.assertIn("Logarithmic axis.", figures["Own"])
        for title, groups in (("Own", ["own"]), ("Training episode length", ["other", "own"])):
            self.assertEqual([name for name in ("other", "own") if f"</i>{name}" in figures[title]], groups, title)

    def test_several_verdicts_come_with_a_note(self):
        runs = [self.made(f"gamma-{gamma}", [1.0], gamma=gamma) for gamma in (0.9, 0.8, 0.7)]
        self.assertIn("2 groups are set against the first", " ".join(compare(runs).notes))
        self.assertEqual(compare(runs[:2]).notes, [])

    def test_another_task_is_refused(self):
        runs = [self.made("cheetah", [1.0]), self.made("ant", [1.0], env_id="Ant-v5")]
        with self.assertRaisesRegex(ConfigError, r"its task is Ant-v5, not HalfCheetah-v5"):
            compare(runs)

    def test_a_run_without_a_return_is_refused(self):
        with self.assertRaisesRegex(ConfigError, "no episode has ended in it yet"):
            compare([self.made("some", [1.0]), self.made("none", [None], gamma=0.9)])

    def test_a_run_of_another_trainer_comes_with_a_note(self):
        run = self.made("ours", [1.0])
        theirs = self.made("theirs", [2.0])
        learner = {"learner": theirs.settings["learner"]._replace(value='"sb3"')}
        theirs.settings.update(learner)
        self.assertIn("note           sb3 is stable-baselines3's PPO", comparison_text(compare([run, theirs])))


if __name__ == "__main__":
    unittest.main()
