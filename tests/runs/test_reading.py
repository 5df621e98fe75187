"""Run folders as they are read: whole, cut off, damaged, or none."""

import math
import tempfile
import unittest
from pathlib import Path

from ddp_ppo.config.settings import Config, ConfigError
from ddp_ppo.config.writing import dump_effective
from ddp_ppo.runs.reading import BY_HAND, Given, NoRoundsError, default_settings, read_run, read_settings
from tests.support.process import FolderTestCase
from tests.support.runs import write_run

CONFIG = Config(env_id="CartPole-v1", num_actors=2, envs_per_actor=2, rollout_length=16, seed=3)


class ReadRunTest(FolderTestCase):
    def setUp(self):
        self.place = self.folder / self.id().rpartition(".")[2]
        metrics = {"eval/return_mean": [None, 20.0, 30.0], "train/value_loss": [1.0, 0.5, 0.25]}
        events = [{"time": "t", "round": 2, "event": "anomaly", "rule": "kl_jump", "seen": "KL 1", "advice": "less"}]
        write_run(self.place, CONFIG, metrics, events=events)

    def refused(self, kind=ConfigError):
        with self.assertRaises(kind) as caught:
            read_run(self.place)
        (line,) = str(caught.exception).splitlines()
        return line

    def test_it_is_what_was_written(self):
        run = read_run(self.place)
        self.assertEqual((run.name, run.num_rounds, run.transitions_per_round), ("tiny", 3, 64.0))
        self.assertEqual(run.column("train/value_loss"), [1.0, 0.5, 0.25])
        self.assertEqual(run.known("eval/return_mean"), [(1, 20.0), (2, 30.0)])
        self.assertEqual(
            (run.setting("seed"), run.setting("env_id"), run.setting("target_kl")), (3, "CartPole-v1", None)
        )
        self.assertEqual([event["rule"] for event in run.events], ["kl_jump"])
        self.assertEqual(run.versions, {"torch": "1.2.3"})

    def test_a_metric_or_setting_that_it_does_not_have_is_nothing(self):
        run = read_run(self.place)
        self.assertTrue(all(map(math.isnan, run.column("reward/forward"))))
        self.assertIsNone(run.setting("a_setting_of_tomorrow"))

    def test_a_row_or_event_that_was_cut_off_is_left_out(self):
        for name, text in (("metrics.csv", "4,256,0."), ("events.jsonl", '{"time": "t", "ro')):
            with (self.place / name).open("a") as file:
                file.write(text)
        run = read_run(self.place)
        self.assertEqual((run.num_rounds, len(run.events)), (3, 1))

    def test_only_metrics_and_settings_are_needed(self):
        for name in ("lock", "events.jsonl", "versions.json"):
            (self.place / name).unlink()
        run = read_run(self.place)
        self.assertEqual((run.events, run.versions, run.evaluated), ([], {}, []))

    def test_settings_of_another_release_are_read(self):
        with (self.place / "config.yaml").open("a") as file:
            file.write('a_setting_of_tomorrow: "a # b: c"  # old.yaml:3\n')
        self.assertEqual(read_run(self.place).setting("a_setting_of_tomorrow"), "a # b: c")

    def test_settings_before_a_resume_are_kept_by_round(self):
        (self.place / "config_until_round_2.yaml").write_text("seed: 1  # default\n")
        self.assertEqual(read_run(self.place).earlier, {2: {"seed": Given("1", "default")}})

    def test_episodes_of_a_later_evaluation_come_along(self):
        (self.place / "evaluation.csv").write_text("model,return\na,1.5\na,2.5\n")
        self.assertEqual([row["return"] for row in read_run(self.place).evaluated], ["1.5", "2.5"])

    def test_what_is_no_run_is_one_line(self):
        (self.place / "config.yaml").unlink()
        self.assertIn("not a run folder", self.refused())
        for text in ("[1]", "seed: {", "seed: 1\nseed: 2"):
            (self.place / "config.yaml").write_text(text)
            self.assertIn("a file in it is damaged: config.yaml", self.refused())
        self.place = self.place / "config.yaml"
        self.assertIn("report and compare take run folders", self.refused())
        self.place = self.place.parent / "gone"
        self.assertIn("no such folder", self.refused())

    def test_a_run_without_a_round_is_told_apart(self):
        for text in ("", "round,env_steps\n"):
            (self.place / "metrics.csv").write_text(text)
            self.assertIn("no round was finished", self.refused(NoRoundsError))

    def test_metrics_that_lie_elsewhere_are_named(self):
        settings = (self.place / "config.yaml").read_text()
        path = self.folder / "else.csv"
        (self.place / "config.yaml").write_text(settings.replace("metrics_path: null", f'metrics_path: "{path}"'))
        self.assertIn(f"{path}: the metrics of this run are not here", self.refused())
        (self.place / "metrics.csv").rename(path)
        self.assertEqual(read_run(self.place).num_rounds, 3)

    def test_damage_is_one_line(self):
        for name, content in (
            ("metrics.csv", b"round,env_steps\n1,x\n"),
            ("versions.json", b"{"),
            ("lock", b"\n\xff\n"),
        ):
            with self.subTest(name):
                path = self.place / name
                before = path.read_bytes()
                path.write_bytes(content)
                self.assertIn("damaged", self.refused())
                path.write_bytes(before)


class SettingsTest(unittest.TestCase):
    def test_the_task_of_a_run_is_told_where_it_has_several_too(self):
        with tempfile.TemporaryDirectory() as folder:
            one = write_run(Path(folder) / "one", Config(env_id="A"), {"eval/return_mean": [1.0]})
            two = write_run(Path(folder) / "two", Config(env_ids=["A", "B"]), {"eval/return_mean": [1.0]})
            self.assertEqual([read_run(path).tasks for path in (one, two)], ["A", "A, B"])

    def test_value_and_origin_are_told_apart(self):
        self.assertEqual(read_settings('run_name: "a  # b"  # x.yaml:2\n'), {"run_name": Given('"a  # b"', "x.yaml:2")})

    def test_a_line_that_a_hand_has_edited_is_read_too(self):
        text = "env_id: Ant-v5\n\n# mine\nseed: 3 # why\nhidden_sizes:\n- 8\n- 8\ngamma: 0.9  # x.yaml:2\n"
        expected = {"env_id": Given('"Ant-v5"', BY_HAND), "seed": Given("3", "why")}
        expected |= {"hidden_sizes": Given("[8, 8]", BY_HAND), "gamma": Given("0.9", "x.yaml:2")}
        self.assertEqual(read_settings(text), expected)

    def test_every_default_is_read_as_it_is_written(self):
        lines = [line for line in dump_effective(Config()).splitlines() if "#" in line]
        written = [line.strip().removesuffix("  # default").split(": ", 1) for line in lines]
        found = [[name.rpartition(".")[2], value] for name, value in default_settings().items()]
        self.assertEqual(found, written)

    def test_a_setting_has_one_name_whatever_release_has_written_it(self):
        before, now = "clip_range: 0.1  # a:1\n", "ppo:\n  clip_range: 0.1  # a:1\n"
        self.assertEqual(read_settings(before), read_settings(now))
        self.assertEqual([*read_settings(before)], ["ppo.clip_range"])

    def test_defaults_are_text_in_the_same_form(self):
        defaults = default_settings()
        self.assertEqual((defaults["seed"], defaults["hidden_sizes"], defaults["resume"]), ("1", "[64, 64]", "null"))


if __name__ == "__main__":
    unittest.main()
