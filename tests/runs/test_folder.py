"""Where a run keeps its files."""

import contextlib
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from ddp_ppo.config.settings import Config, ConfigError
from ddp_ppo.runs.csv_log import CsvLog
from ddp_ppo.runs.folder import RunFolder, home_of, latest_runs, require_writable
from tests.support.process import ROOT


class RunFolderTestCase(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.output = self.folder / "runs" / "output"

    def config(self, name="ant", **settings):
        return Config(name=name, **{"output_dir": str(self.output), **settings})


class CreateTest(RunFolderTestCase):
    def test_it_is_named_after_the_configuration_and_the_time(self):
        with RunFolder.create(self.config()) as run:
            self.assertEqual(run.path.parent, self.output)
            self.assertRegex(run.path.name, r"^ant-\d{8}-\d{6}$")

    def test_it_is_named_after_the_configuration_and_the_run_s_name(self):
        with RunFolder.create(self.config(run_name="first try")) as run:
            self.assertEqual(run.path, self.output / "ant-first try")

    def test_a_folder_that_exists_is_left_alone_and_the_new_one_gets_a_number(self):  # O-59
        config = self.config(run_name="a")
        for expected in ("ant-a", "ant-a-2", "ant-a-3"):
            with RunFolder.create(config) as run:
                self.assertEqual(run.path.name, expected)
                run.metrics.write_text(expected)
        for name in ("ant-a", "ant-a-2", "ant-a-3"):
            self.assertEqual((self.output / name / "metrics.csv").read_text(), name)

    def test_two_runs_that_start_in_the_same_second_get_two_folders(self):
        with RunFolder.create(self.config()) as first, RunFolder.create(self.config()) as second:
            self.assertNotEqual(first.path, second.path)

    def test_models_lie_in_the_folder_and_under_the_configuration_s_name_beside_it(self):
        with RunFolder.create(self.config(run_name="a")) as run:
            self.assertEqual({run.model.parent, run.best_model.parent, run.checkpoints.parent}, {run.path})
            self.assertNotEqual(run.model, run.best_model)
            self.assertEqual(run.latest_model, self.output / "model_ant.pt")
            self.assertEqual(run.latest_best_model, self.output / "model_ant_best.pt")

    def test_checkpoints_that_are_left_behind_are_set_aside_with_copies_of_the_files(self):  # H-c
        for name in ("until_round_9", "until_round_9-2"):
            with RunFolder.create(self.config(run_name="a", metrics_path=str(self.folder / "m.csv"))) as run:
                folder = run.path
            with RunFolder(folder if name.endswith("9") else self.output / "ant-a", self.config()) as run:
                run.checkpoints.mkdir(exist_ok=True)
                left = [run.checkpoints / f"checkpoint_000000{number}.pt" for number in (9, 8)]
                for path in (*left, run.model, run.metrics):
                    path.write_text(path.name)
                aside = run.set_aside(left)
                self.assertEqual(aside, self.output / "ant-a" / name)
                found = {str(path.relative_to(aside)) for path in aside.rglob("*") if path.is_file()}
                expected = {f"checkpoints/checkpoint_000000{number}.pt" for number in (8, 9)}
                self.assertEqual(found, expected | {"model.pt", "metrics.csv"})
                self.assertEqual([*run.checkpoints.iterdir()], [])
                self.assertEqual(run.model.read_text(), "model.pt")

    def test_a_folder_keeps_its_name_when_another_configuration_goes_on_in_it(self):
        with RunFolder.create(self.config(run_name="a")) as run:
            pass
        with RunFolder(run.path, self.config("config")) as again:
            self.assertEqual(again.latest_model, self.output / "model_ant.pt")
        self.assertEqual((run.path / "lock").read_bytes().split(b"\n")[1], b"ant")

    def test_its_paths_are_absolute_and_stay_where_they_are_when_the_current_folder_changes(self):
        config = self.config(run_name="a", output_dir="out", metrics_path="m.csv")
        with contextlib.chdir(self.folder), RunFolder.create(config) as run:
            self.assertEqual((run.path, run.metrics), (Path.cwd() / "out" / "ant-a", Path.cwd() / "m.csv"))

    def test_the_metrics_lie_where_the_setting_says(self):
        with RunFolder.create(self.config(run_name="a")) as run:
            self.assertEqual(run.metrics, run.path / "metrics.csv")
        path = self.folder / "elsewhere" / "m.csv"
        with RunFolder.create(self.config(metrics_path=str(path))) as run:
            self.assertEqual(run.metrics, path)

    def test_a_folder_that_cannot_be_made_is_named(self):
        self.output.parent.mkdir()
        self.output.write_text("a file")
        with self.assertRaisesRegex(ConfigError, f"output_dir: cannot create {self.output}/ant-a: Not a directory"):
            RunFolder.create(self.config(run_name="a"))

    def test_a_metrics_file_that_cannot_be_made_is_named_before_there_is_a_folder(self):
        config = self.config(metrics_path="/proc/none/m.csv")  # not even root can make this one
        with self.assertRaisesRegex(ConfigError, "metrics_path: cannot write /proc/none/m.csv: No such file"):
            RunFolder.create(config)
        self.assertFalse(self.output.exists())

    def test_a_metrics_file_that_exists_keeps_its_content_until_the_run_has_started(self):
        path = self.folder / "m.csv"
        path.write_text("round\n1\n")
        with RunFolder.create(self.config(metrics_path=str(path))):
            self.assertEqual(path.read_text(), "round\n1\n")

    def test_a_folder_that_cannot_be_written_is_named_on_a_resume(self):
        with self.assertRaisesRegex(ConfigError, "^/proc/self: this run folder cannot be written: "):
            RunFolder(Path("/proc/self"), self.config())

    def test_a_full_disk_is_named(self):
        (self.folder / "lock").symlink_to("/dev/full")
        with self.assertRaisesRegex(ConfigError, f"^{self.folder}: .* cannot be written: No space left on device$"):
            RunFolder(self.folder, self.config())


class HomeOfTest(RunFolderTestCase):
    def test_a_checkpoint_belongs_to_the_run_folder_that_it_lies_in(self):
        with RunFolder.create(self.config(run_name="a")) as run:
            self.assertEqual(home_of(run.checkpoints / "checkpoint_0000001.pt"), run.path)

    def test_a_copy_elsewhere_belongs_to_none(self):
        for place in ("copies", "copies/checkpoints", "."):
            self.assertIsNone(home_of(self.folder / place / "checkpoint_0000001.pt"))


class LockTest(RunFolderTestCase):
    def test_a_folder_is_refused_while_its_run_lives_and_free_afterwards(self):
        config = self.config(run_name="a")
        with RunFolder.create(config) as run:
            for _ in range(2):
                with self.assertRaisesRegex(ConfigError, f"{run.path}: another run is alive"):
                    RunFolder(run.path, config)
        RunFolder(run.path, config).__exit__()

    def test_a_metrics_file_is_refused_while_a_run_writes_it_and_nothing_is_left_of_the_one_that_is_refused(self):
        path = self.folder / "shared.csv"
        with RunFolder.create(self.config(run_name="a", metrics_path=str(path))) as run:
            for log in (None, CsvLog(path, after_round=0)):  # which puts a new file in place of the locked one
                for start in (RunFolder.create, lambda config: RunFolder(self.folder, config)):
                    with self.assertRaisesRegex(ConfigError, f"^{path}: another run writes its metrics there"):
                        start(self.config(run_name="b", metrics_path=str(path)))
                if log is not None:
                    log.close()
        self.assertEqual([folder.name for folder in self.output.iterdir()], [run.path.name])
        RunFolder.create(self.config(run_name="b", metrics_path=str(path))).__exit__()

    def test_a_run_that_was_killed_holds_no_lock(self):
        code = (
            "import sys; from ddp_ppo.config.settings import Config; from ddp_ppo.runs.folder import RunFolder;"
            "run = RunFolder.create(Config(name='ant', run_name='a', output_dir=sys.argv[1]));"
            "print('locked', flush=True); sys.stdin.read()"
        )
        command = [sys.executable, "-c", code, str(self.output)]
        with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            self.addCleanup(other.kill)
            self.assertEqual(other.stdout.readline(), "locked\n")
            path = self.output / "ant-a"
            with self.assertRaisesRegex(ConfigError, "another run is alive"):
                RunFolder(path, self.config())
            other.kill()
            other.wait(30)
            RunFolder(path, self.config()).__exit__()


class RequireWritableTest(RunFolderTestCase):
    def test_a_path_that_does_not_exist_yet_is_fine_and_not_created(self):
        require_writable(
            self.config(output_dir=str(self.folder / "a" / "b"), metrics_path=str(self.folder / "c/d.csv"))
        )
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_file_in_the_way_is_named_with_its_setting(self):  # O-68
        file = self.folder / "file"
        file.write_text("text")
        for place in (file, file / "below"):
            with self.subTest(place), self.assertRaisesRegex(ConfigError, f"output_dir: {file} is a file"):
                require_writable(self.config(output_dir=str(place)))
            with self.subTest(place), self.assertRaisesRegex(ConfigError, f"metrics_path: {file} is a file"):
                require_writable(self.config(metrics_path=str(place / "m.csv")))

    def test_a_link_to_nothing_is_named_with_its_target(self):
        link = self.folder / "link"
        link.symlink_to(self.folder / "none")
        for place in (link, link / "below"):
            with self.assertRaisesRegex(ConfigError, f"output_dir: {link} is a link to {self.folder}/none, which does"):
                require_writable(self.config(output_dir=str(place)))
        (self.folder / "none").mkdir()
        require_writable(self.config(output_dir=str(link)))

    def test_a_folder_in_place_of_the_metrics_file_is_named(self):
        with self.assertRaisesRegex(ConfigError, f"metrics_path: {self.folder} is a folder"):
            require_writable(self.config(metrics_path=str(self.folder)))

    def test_a_folder_that_cannot_be_written_is_named_with_its_setting(self):
        locked = self.folder / "locked"
        locked.mkdir(mode=0o555)  # root may write here all the same, but not everywhere in /proc
        place = next((place for place in (locked, Path("/proc/1")) if not os.access(place, os.W_OK)), None)
        if place is None:
            self.skipTest("this user may write everywhere")
        with self.assertRaisesRegex(ConfigError, f"output_dir: {place} is not writable"):
            require_writable(self.config(output_dir=str(place / "output")))

    def test_a_path_relative_to_the_current_folder_is_fine(self):
        require_writable(self.config(output_dir="output", metrics_path="metrics.csv"))


class LatestRunTest(RunFolderTestCase):
    def checkpoint(self, folder, seconds):
        """A checkpoint of this age in a run folder."""
        path = self.output / folder / "checkpoints" / "checkpoint_0000001.pt"
        path.parent.mkdir(parents=True)
        path.write_text("")
        os.utime(path, (seconds, seconds))

    def latest(self, name="ant", **settings):
        return next((found.name for found in latest_runs(self.config(name, **settings))), None)

    def test_without_a_run_there_is_none(self):
        self.assertIsNone(self.latest())
        self.output.mkdir(parents=True)
        self.assertIsNone(self.latest())
        (self.output / "ant-20260101-000000").mkdir()  # it never wrote a checkpoint
        self.assertIsNone(self.latest())

    def test_it_is_the_one_with_the_newest_checkpoint_whatever_its_name(self):
        self.checkpoint("ant-20260101-000000", 300)
        self.checkpoint("ant-20260102-000000", 200)
        self.checkpoint("ant-named", 100)
        self.assertEqual(self.latest(), "ant-20260101-000000")
        names = [path.name for path in latest_runs(self.config())]
        self.assertEqual(names, ["ant-20260101-000000", "ant-20260102-000000", "ant-named"])

    def test_a_configuration_with_a_longer_name_is_another_one(self):
        self.checkpoint("ant_large-20260101-000000", 300)
        self.assertIsNone(self.latest())
        self.checkpoint("ant-20260101-000000", 100)
        self.assertEqual(self.latest(), "ant-20260101-000000")
        self.assertEqual(self.latest("ant_large"), "ant_large-20260101-000000")

    def test_a_run_name_chooses_among_the_runs_with_that_name(self):
        self.checkpoint("ant-a", 100)
        self.checkpoint("ant-a-2", 200)
        self.checkpoint("ant-ab", 300)
        self.checkpoint("ant-a-b", 400)
        self.assertEqual(self.latest(run_name="a"), "ant-a-2")
        self.assertEqual(self.latest(run_name="ab"), "ant-ab")
        self.assertIsNone(self.latest(run_name="c"))

    def test_characters_that_mean_something_to_a_pattern_are_taken_as_they_are(self):
        self.checkpoint("ant-a[1]", 100)
        self.checkpoint("ant-a1", 200)
        self.assertEqual(self.latest(run_name="a[1]"), "ant-a[1]")


if __name__ == "__main__":
    unittest.main()
