"""Whole runs of the program, from its command line to its files."""

import json
import math
import re
import unittest

import torch

from ddp_ppo.config.load import load_config
from tests.support.process import (
    FIXTURE,
    SMOKE,
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


class SmokeTest(FolderTestCase):
    """configs/smoke.yaml: 6 rounds of 2 actors x 2 environments x 64 steps, evaluated and saved in rounds 3 and 6."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.report = cls.folder / "report.json"
        program = cls.start(SMOKE)
        cls.ended = succeeded(program)
        (cls.home,) = (path for path in (cls.work / "output").iterdir() if path.is_dir())
        cls.rows = read_csv(cls.home / "metrics.csv")

    def test_a_run_leaves_these_files_and_no_others(self):
        expected = {"config.yaml", "events.jsonl", "lock", "metrics.csv", "model.pt", "model_best.pt", "report.html"}
        expected |= {"versions.json", "metric_table.json"}
        expected |= {*(f"checkpoints/checkpoint_000000{number}.pt" for number in (3, 6))}
        found = files_in(self.home)
        (events,) = (name for name in found if name.startswith("tensorboard/events.out.tfevents."))
        self.assertEqual(found - {events}, expected)
        beside = {path.name for path in (self.work / "output").iterdir()}
        self.assertEqual(beside, {self.home.name, "model_smoke.pt", "model_smoke_best.pt"})
        self.assertEqual([path.name for path in self.work.iterdir()], ["output"])

    def test_every_file_is_readable_by_the_safe_loader(self):
        for path in self.home.rglob("*.pt"):
            with self.subTest(path.name):
                self.assertIsInstance(load(path), dict)

    def test_it_says_nothing_on_stderr_and_names_what_it_wrote(self):
        self.assertEqual(self.ended.err, "")
        last = self.ended.out[self.ended.out.index("done: 6 rounds, 1,536 environment steps") :]
        for path in (self.home, self.home.parent / "model_smoke.pt", self.home.parent / "model_smoke_best.pt"):
            self.assertIn(str(path.relative_to(self.work)), last)

    def test_there_is_one_line_for_each_round(self):
        lines = [line for line in self.ended.out.splitlines() if line.startswith("round ")]
        self.assertEqual([line.split(" | ")[0] for line in lines], [f"round {i}/6" for i in range(1, 7)])

    def test_the_effective_configuration_reads_back_to_the_same_settings(self):
        config = load_config(self.home / "config.yaml")
        self.assertEqual(config, load_config(SMOKE))
        text = (self.home / "config.yaml").read_text()
        self.assertRegex(text, r"(?m)^env_id: \"InvertedPendulum-v5\"  # .*smoke\.yaml:\d+$")
        self.assertRegex(text, r"(?m)^gamma: 0\.99  # .*base\.yaml:\d+$")
        self.assertRegex(text, r"(?m)^  adam_eps: .*  # default$")

    def test_every_row_has_the_true_number_of_samples_and_steps(self):  # C15
        self.assertEqual(numbers(self.rows, "round"), [1, 2, 3, 4, 5, 6])
        self.assertEqual(numbers(self.rows, "buffer_size"), [256] * 6)
        self.assertEqual(numbers(self.rows, "env_steps"), [256 * i for i in range(1, 7)])
        # 256 samples are 4 mini-batches of 64, twice
        self.assertEqual(numbers(self.rows, "train/gradient_steps"), [8] * 6)

    def test_every_cell_is_a_finite_number_or_empty(self):
        for row in self.rows:
            for name, cell in row.items():
                self.assertTrue(cell == "" or math.isfinite(float(cell)), f"{name}: {cell}")
        evaluations = numbers(self.rows, "eval/return_mean")
        self.assertEqual([value is None for value in evaluations], [True, True, False] * 2)
        survive = numbers(self.rows, "reward/survive")  # 1 in each step but the last one of an episode
        self.assertTrue(all(0.5 < value <= 1.0 for value in survive), survive)
        always = [name for name in self.rows[0] if not name.startswith(("eval/", "rollout/"))]
        self.assertTrue(all(row[name] for row in self.rows for name in always))

    def test_tensorboard_has_the_same_names_and_values(self):  # C16
        shown = scalars(self.home / "tensorboard")
        self.assertEqual(shown.keys(), self.rows[0].keys())
        for name, points in shown.items():
            steps = numbers(self.rows, "env_steps")
            expected = [
                (step, value) for step, value in zip(steps, numbers(self.rows, name), strict=True) if value is not None
            ]
            self.assertEqual([step for step, _ in points], [step for step, _ in expected], name)
            for (_, found), (_, value) in zip(points, expected, strict=True):
                self.assertAlmostEqual(found, value, delta=1e-6 * abs(value), msg=name)

    def test_the_learning_rate_falls_in_equal_steps_and_stays_above_0(self):  # O-53
        for i, rate in enumerate(numbers(self.rows, "train/learning_rate")):
            self.assertAlmostEqual(rate, 3e-4 * (6 - i) / 6, delta=1e-12)

    def test_stages_take_no_longer_than_the_round(self):
        stages = ("sample", "annotate", "transfer", "train", "sync", "record")
        for row in self.rows:
            times = [float(row[f"time/{stage}_seconds"]) for stage in stages]
            self.assertGreaterEqual(min(times), 0.0)
            self.assertAlmostEqual(sum(times), float(row["time/round_seconds"]), delta=1e-3)

    def test_statistics_hold_every_step_once(self):  # C10
        checkpoint = last_checkpoint(self.home)
        self.assertEqual(checkpoint["obs_rms_state"]["count"], 1536)
        self.assertEqual(checkpoint["return_rms_state"]["count"], 1536)
        self.assertEqual((checkpoint["round"], checkpoint["env_steps"]), (6, 1536))

    def test_the_model_is_that_of_the_last_round(self):
        model, learner = load(self.home / "model.pt"), last_checkpoint(self.home)["ranks"][0]["learner"]
        self.assertTrue(torch.equal(parameters_of(model), learner["parameters"].sort().values))
        self.assertEqual(model["obs_rms_state"]["count"], 1536)
        self.assertEqual((model["spec"]["round"], model["spec"]["env_steps"]), (6, 1536))

    def test_the_best_model_carries_the_statistics_of_its_own_moment(self):  # C17
        third, sixth = (row["eval/return_mean"] for row in (self.rows[2], self.rows[5]))
        best_round = 6 if float(sixth) > float(third) else 3
        best = load(self.home / "model_best.pt")
        self.assertEqual(best["spec"]["round"], best_round)
        self.assertEqual(best["obs_rms_state"]["count"], 256 * best_round)
        self.assertEqual(best["spec"]["eval_return"], max(float(third), float(sixth)))

    def test_the_files_beside_the_run_are_copies(self):
        for name in ("model", "model_best"):
            latest = self.home.parent / f"{name.replace('model', 'model_smoke')}.pt"
            self.assertEqual(latest.read_bytes(), (self.home / f"{name}.pt").read_bytes())


class SameSeedTest(FolderTestCase):
    """The same configuration three ways: twice at once in one output folder, and by torchrun with one process."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        config = cls.config("tiny", TINY)
        programs = [cls.start(config, "run_name=twin") for _ in range(2)]
        programs.append(cls.start(config, "run_name=alone", "metrics_path=m.csv", "seed=2"))
        programs.append(cls.start(config, "run_name=launched", nproc=1))
        for program in programs:
            succeeded(program)
        cls.output = cls.work / "output"

    def checkpoint(self, name):
        return last_checkpoint(self.output / f"tiny-{name}")

    def test_two_runs_at_once_get_a_folder_each_and_both_are_whole(self):  # O-59
        folders = {path.name for path in self.output.iterdir() if path.is_dir()}
        self.assertEqual(folders, {"tiny-twin", "tiny-twin-2", "tiny-alone", "tiny-launched"})
        for name in ("twin", "twin-2"):
            self.assertEqual(numbers(read_csv(self.output / f"tiny-{name}" / "metrics.csv"), "round"), [*range(1, 11)])
        self.assertFalse([name for name in files_in(self.output) if name.endswith(".tmp")])

    def test_the_same_seed_gives_the_same_run_to_the_last_bit(self):
        self.assertEqual(differences(self.checkpoint("twin"), self.checkpoint("twin-2")), [])
        first, second = (read_csv(self.output / f"tiny-{name}" / "metrics.csv") for name in ("twin", "twin-2"))
        self.assertEqual(without_times(first), without_times(second))

    def test_torchrun_with_one_process_gives_the_same_run_to_the_last_bit(self):
        self.assertEqual(differences(self.checkpoint("twin"), self.checkpoint("launched")), [])

    def test_another_seed_gives_another_run(self):
        paths = differences(self.checkpoint("twin"), self.checkpoint("alone"))
        self.assertIn("/ranks/0/learner/parameters", paths)
        self.assertIn("/obs_rms_state/mean", paths)

    def test_the_metrics_lie_where_the_setting_says(self):
        self.assertEqual(len(read_csv(self.work / "m.csv")), 10)
        self.assertFalse((self.output / "tiny-alone" / "metrics.csv").exists())


class EpisodesTest(FolderTestCase):
    """Runs in environments with known episodes, one actor each."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        config = cls.config("count", FIXTURE.replace("num_actors: 2", "num_actors: 1"))
        cases = {
            "long": ("env_kwargs={length: 1000}", "envs_per_actor=1", "rollout_length=128", "total_env_steps=1024"),
            "endless": ("total_env_steps=96",),
            "uneven": ("env_kwargs={length: 3}", "envs_per_actor=15", "rollout_length=100", "total_env_steps=10000"),
            "shorter": ("env_id=tests.support.fixtures:Limited-v0", "max_episode_steps=3", "total_env_steps=1"),
            "longer": ("env_id=tests.support.fixtures:Limited-v0", "max_episode_steps=7", "total_env_steps=96"),
            "late": ("env_id=tests.support.fixtures:LateTerm-v0", "max_episode_steps=40", "total_env_steps=128"),
        }
        common = ("eval_interval=0", "checkpoint_interval=1000")
        cls.ended = {}
        for pair in (("long", "endless", "longer"), ("uneven", "shorter", "late")):
            started = {name: cls.start(config, f"run_name={name}", *cases[name], *common) for name in pair}
            cls.ended |= {name: succeeded(program) for name, program in started.items()}
        cls.home = {name: cls.work / "output" / f"count-{name}" for name in cases}
        cls.rows = {name: read_csv(run / "metrics.csv") for name, run in cls.home.items()}

    def test_an_episode_longer_than_the_rollout_appears_once_when_it_ends(self):  # O-09
        rows = self.rows["long"]
        self.assertEqual(numbers(rows, "env_steps"), [128 * i for i in range(1, 9)])
        self.assertEqual(numbers(rows, "rollout/episodes"), [0] * 7 + [1])
        for name in ("rollout/episode_return_mean", "rollout/episode_length_mean"):
            self.assertEqual([row[name] for row in rows], [""] * 7 + ["1000"])

    def test_an_environment_that_never_ends_is_trained_on(self):  # O-10
        rows = self.rows["endless"]
        self.assertEqual(len(rows), 3)
        for row in rows:
            self.assertEqual((row["rollout/episode_return_mean"], row["rollout/episode_length_mean"]), ("", ""))
            self.assertTrue(math.isfinite(float(row["train/policy_loss"]) + float(row["train/value_loss"])))

    def test_a_term_of_the_reward_has_a_column_from_the_round_in_which_it_first_appears(self):
        # 0.5 from step 20 on, in steps 1-16, 17-32, 33-40 and 1-8, 9-24 of an episode: 13, 8 and 5 times of 16.
        self.assertEqual(numbers(self.rows["late"], "reward/late"), [None, 0.40625, 0.25, 0.15625])

    def test_it_is_said_once_that_no_episode_has_ended(self):  # O-10
        lines = [line for line in self.ended["endless"].out.splitlines() if re.search("no episode", line)]
        self.assertEqual(len(lines), 1, self.ended["endless"].out)
        self.assertNotIn("no episode", self.ended["shorter"].out)

    def test_a_total_that_is_no_multiple_of_the_round_is_rounded_up_everywhere(self):  # O-11
        rows = self.rows["uneven"]
        self.assertEqual(numbers(rows, "env_steps"), [1500 * i for i in range(1, 8)])
        self.assertEqual(last_checkpoint(self.home["uneven"])["env_steps"], 10_500)
        self.assertIn("7 rounds, 10,500 environment steps", self.ended["uneven"].out)
        for i, rate in enumerate(numbers(rows, "train/learning_rate")):
            self.assertAlmostEqual(rate, 3e-4 * (7 - i) / 7, delta=1e-12)

    def test_a_total_below_one_round_is_one_round(self):  # O-11
        self.assertEqual(numbers(self.rows["shorter"], "env_steps"), [32])

    def test_every_return_and_length_is_that_of_whole_episodes(self):  # O-08
        for row in self.rows["uneven"]:
            self.assertEqual((row["rollout/episode_return_mean"], row["rollout/episode_length_mean"]), ("3", "3"))
        # 15 environments x 100 steps: 33 or 34 episodes of 3 steps each
        self.assertEqual(numbers(self.rows["uneven"], "rollout/episodes")[:3], [15 * 33, 15 * 33, 15 * 34])

    def test_the_limit_of_the_configuration_replaces_the_registered_one(self):  # O-69
        for name, limit in (("shorter", "3"), ("longer", "7")):
            with self.subTest(name):
                self.assertEqual({row["rollout/episode_length_mean"] for row in self.rows[name]}, {limit})
                self.assertEqual(self.rows[name][-1]["eval/length_mean"], limit)


class EvaluationTest(FolderTestCase):
    """The same training with many evaluations and with one, in environments that observe 100 more when evaluated."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        text = FIXTURE.replace("Count-v0", "Dice-v0") + "env_kwargs: {shift: 100, shift_from: 2}\n"
        config = cls.config("dice", text)
        programs = [cls.start(config, f"eval_interval={n}", f"run_name=every_{n}") for n in (1, 0)]
        for program in programs:
            succeeded(program)
        cls.often, cls.once = (cls.work / "output" / f"dice-every_{n}" for n in (1, 0))

    def test_evaluations_leave_no_trace_in_the_statistics(self):  # O-28
        state = last_checkpoint(self.often)["obs_rms_state"]
        self.assertEqual(state["count"], 640)
        # 640 draws of N(0, 1): the mean is within 5 standard errors, far from what one shifted observation adds
        self.assertLess(abs(float(state["mean"][0])), 5 / math.sqrt(640))
        self.assertLess(float(state["var"][0]), 1.5)

    def test_evaluations_leave_training_as_it_was(self):
        # The environment's own draws, in the first column; the second shares NumPy's global generator with evaluations.
        often, once = (last_checkpoint(run)["obs_rms_state"] for run in (self.often, self.once))
        self.assertEqual(float(often["mean"][0]), float(once["mean"][0]))
        self.assertEqual(float(often["var"][0]), float(once["var"][0]))

    def test_evaluations_have_raw_rewards_and_always_the_same_seeds(self):
        for name, value in (("eval/return_mean", "5"), ("eval/return_std", "0"), ("eval/length_mean", "5")):
            self.assertEqual({row[name] for row in read_csv(self.often / "metrics.csv")}, {value})


class BestModelTest(FolderTestCase):
    """A run with a best evaluation of -1 goes on in an environment that gives -3."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        config = cls.config("script", FIXTURE.replace("Count-v0", "Script-v0"))
        cls.home = cls.work / "output" / "script-a"
        cls.best, cls.reports = [], []
        for i, (reward, total) in enumerate(((-1.0, 128), (-3.0, 256))):
            script = f"env_kwargs={{rewards: [{reward}], obs: [1], reset_obs: 0, term_at: 0}}"
            report = cls.folder / f"{i}.json"
            resume = [f"resume={cls.home}"] if i else []
            succeeded(cls.start(config, script, "run_name=a", f"total_env_steps={total}", *resume, "--json", report))
            cls.best.append((cls.home / "model_best.pt").read_bytes())
            cls.reports.append(json.loads(report.read_text()))

    def test_a_worse_evaluation_after_a_resume_leaves_the_best_model_alone(self):  # O-56
        self.assertEqual(self.best[1], self.best[0])
        self.assertEqual([report["best_return"] for report in self.reports], [-1.0, -1.0])
        self.assertEqual(self.reports[1]["eval_return"], -3.0)

    def test_the_model_of_the_moment_is_written_all_the_same(self):
        self.assertEqual(load(self.home / "model.pt")["spec"]["round"], 4)


if __name__ == "__main__":
    unittest.main()
