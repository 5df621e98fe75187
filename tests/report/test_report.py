"""The report: what it tells of a run, that a run leaves one, and that it never fails a run."""

import errno
import json
import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from ddp_ppo.config.settings import Config
from ddp_ppo.report.report import record, report_or_warn, verdicts, write_report
from ddp_ppo.runs.reading import read_run
from tests.support.browser import BROWSER, Browser
from tests.support.process import LIMIT_SECONDS, ROOT, TINY, FolderTestCase, succeeded
from tests.support.runs import write_run

CONFIG = Config(num_actors=2, envs_per_actor=2, rollout_length=16, total_env_steps=192, eval_episodes=2, seed=3)
METRICS = {"eval/return_mean": [None, 20.0, 15.0], "train/gradient_steps": [4.0, 4.0, 4.0]}
FULL = os.strerror(errno.ENOSPC)
EVENT = {"time": "t", "round": 2, "event": "anomaly", "rule": "kl_jump", "seen": "KL <1>", "advice": "less"}
EPISODES = "model,round,actions,return\nx/model_best,2,deterministic,19.0\nx/model_best,2,deterministic,21.0\n"
# The pointer in the middle of the first chart; then what is said to be there.
HOVER = """(() => {
  const svg = document.querySelector(".chart svg"), box = svg.getBoundingClientRect();
  svg.dispatchEvent(new PointerEvent("pointermove", {clientX: box.left + box.width / 2, clientY: box.top + 20}));
  return document.querySelector(".chart output").textContent;
})()"""


class ReportTest(FolderTestCase):
    def setUp(self):
        self.place = self.folder / self.id().rpartition(".")[2]

    def make(self, config=CONFIG, **more):
        self.place = write_run(self.place, config, METRICS, events=[EVENT], **more)
        return read_run(self.place)

    def test_the_record_says_what_was_run_and_what_came_of_it(self):
        found = record(self.make())
        self.assertEqual(found["task"], "HalfCheetah-v5, seed 3")
        self.assertEqual((found["environments"], found["actors"]), ("4", "2"))
        self.assertEqual(found["rollout length"], "16 steps of each environment in a round")
        self.assertEqual(found["total transitions"], "192")
        self.assertEqual(found["updates"], "12 gradient steps in 3 rounds")
        self.assertEqual(found["output folder"], str(self.place))
        self.assertEqual(found["evaluation"], "mean return 15 of 2 deterministic episodes at the end, 20 at best")
        self.assertEqual(found["replay"], f"not replayed yet: ddp-ppo evaluate {self.place}")

    def test_a_replay_is_compared_with_what_was_logged(self):
        self.make()
        for text, words in ((EPISODES, "mean return 20, as logged"), (EPISODES.replace("19", "18"), "logged 20")):
            (self.place / "evaluation.csv").write_text(text)
            self.assertIn(words, record(read_run(self.place))["replay"])

    def test_whether_it_ran_and_whether_it_is_good_are_two_verdicts(self):
        self.assertEqual(
            verdicts(self.make()), {"loop": "ran to its end, every value finite", "standard": "no solved_return is set"}
        )
        for standard, words in ((20.0, "20 reached"), (21.0, "21 not reached: best evaluation 20")):
            shutil.rmtree(self.place)
            config = Config(num_actors=2, envs_per_actor=2, rollout_length=16, solved_return=standard)
            found = verdicts(self.make(config))
            self.assertEqual(found["loop"], "ended after 192 of 1,000,000 environment steps, every value finite")
            self.assertIn(words, found["standard"])

    def test_the_page_holds_every_section(self):
        text = write_report(self.make()).read_text()
        for title in ("Does it learn?", "Is it healthy?", "Where does time go?", "Record", "Evaluations", "Events"):
            self.assertIn(f"<h2>{title}</h2>", text)
        self.assertIn("KL &lt;1&gt;; less", text)
        self.assertIn("<td>torch</td>".replace("td", "th"), text)

    def test_settings_that_differ_from_the_defaults_come_first_with_their_origin(self):
        text = write_report(self.make()).read_text()
        chosen, every = text.split("Every setting")
        self.assertIn("<td>eval_episodes</td><td><code>2</code></td><td><code>10</code></td><td>code</td>", chosen)
        self.assertNotIn("<td>gamma</td>", chosen)
        self.assertIn("<td>gamma</td>", every)

    def test_what_a_resume_changed_is_shown(self):
        self.make()
        before = (self.place / "config.yaml").read_text().replace("eval_episodes: 2", "eval_episodes: 7")
        (self.place / "config_until_round_2.yaml").write_text(before)
        text = write_report(read_run(self.place)).read_text()
        self.assertIn(
            "<td>eval_episodes</td><td><code>7</code></td><td><code>2</code></td>", text.split("Until round 2")[1]
        )

    def test_pictures_go_in_as_long_as_the_page_stays_below_3_megabytes(self):
        self.make()
        (self.place / "play").mkdir()
        for name, size in (
            ("a.mp4", 1_500_000),
            ("a.png", 10),
            ("b.mp4", 2_000_000),
            ("b.png", 10),
            ("c.gif", 3_000_000),
        ):
            (self.place / "play" / name).write_bytes(bytes(size))
        path = write_report(read_run(self.place))
        text = path.read_text()
        self.assertLess(path.stat().st_size, 3_000_000)
        self.assertEqual((text.count("<video"), text.count("<img")), (1, 1))  # the still of b
        for name in ("play/b.mp4", "play/c.gif"):
            self.assertIn(f'href="{name}"', text)

    def test_a_run_of_many_rounds_stays_below_3_megabytes(self):
        rounds = 20_000
        names = [f"train/{i}" for i in range(30)]
        metrics = {name: [((i * 7919) % 1000) / 7.0 for i in range(rounds)] for name in names}
        path = write_report(read_run(write_run(self.place, CONFIG, metrics)))
        self.assertLess(path.stat().st_size, 3_000_000)

    def test_a_report_that_cannot_be_made_is_one_line(self):
        said = []
        self.make()
        (self.place / "report.html").mkdir()
        report_or_warn(self.place, said.append)
        (self.place / "metrics.csv").write_text("round,env_steps\n1,x\n")
        report_or_warn(self.place, said.append)
        self.assertEqual([line.split(":")[0] for line in said], ["warning", "warning"])
        self.assertEqual([line.count("\n") for line in said], [0, 0])

    def test_a_run_that_ended_before_its_first_round_has_none(self):
        said = []
        self.make()
        (self.place / "metrics.csv").write_text("")
        report_or_warn(self.place, said.append)
        self.assertEqual((said, (self.place / "report.html").exists()), ([], False))


class RunTest(FolderTestCase):
    """One short training, and the command on its folder."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.ended = cls.train(cls.config("tiny", TINY), "run_name=a")
        cls.place = cls.work / "output" / "tiny-a"
        cls.report = cls.place / "report.html"

    def test_a_run_leaves_a_report_and_its_versions(self):
        self.assertIn(f"report       {Path('output/tiny-a/report.html')}", self.ended.out)
        self.assertIn("ran to its end, every value finite", self.report.read_text())
        self.assertIn("source", json.loads((self.place / "versions.json").read_text()))

    def test_a_run_whose_report_cannot_be_written_is_a_success_with_a_warning(self):
        place = self.work / "output" / "tiny-b"
        program = self.start(self.config("tiny", TINY), "run_name=b", "total_env_steps=6400")
        program.wait_until((place / "versions.json").exists, "run folder")
        (place / "report.html").mkdir()
        self.assertEqual(succeeded(program).out.count("warning:"), 1)

    def command(self, *words):
        return self.command_line("report", *words)

    def test_the_command_prints_the_record_and_writes_the_file(self):
        self.report.unlink()
        code, out, err = self.command("output/tiny-a", "--json", "a.json")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("total transitions 640", out)
        self.assertTrue(out.splitlines()[-1].startswith("compare it"))
        self.assertEqual(json.loads((self.work / "a.json").read_text())["total transitions"], "640")
        self.assertTrue(self.report.exists())

    def test_mistakes_are_one_line_and_exit_2(self):
        for words in (
            ["gone"],
            ["."],
            ["output/tiny-a", "--out", "gone/a.html"],
            ["output/tiny-a", "--json", "gone/a"],
            ["output/tiny-a", "--json", "output/tiny-a/lock/a"],
            ["output/tiny-a", "--json", "output"],
            ["output/tiny-a", "--out", "."],
        ):
            with self.subTest(words):
                code, out, err = self.command(*words)
                self.assertEqual((code, out, err.count("\n")), (2, "", 1))

    @unittest.skipUnless(Path("/dev/full").exists(), "needs /dev/full")
    def test_a_file_that_a_full_disk_does_not_take_costs_nothing_of_what_is_printed(self):
        code, out, err = self.command("output/tiny-a", "--json", "/dev/full")
        self.assertEqual((code, err.splitlines()), (2, ["ddp-ppo: --json: /dev/full cannot be written: " + FULL]))
        self.assertIn("total transitions 640", out)

    def test_a_reader_that_has_gone_costs_no_file(self):
        reader, writer = os.pipe()
        os.close(reader)
        self.addCleanup(os.close, writer)
        words = [sys.executable, "-m", "ddp_ppo", "report", str(self.place), "--json", str(self.folder / "gone.json")]
        ended = subprocess.run(
            words, stdout=writer, stderr=subprocess.PIPE, cwd=ROOT, timeout=LIMIT_SECONDS, check=False
        )
        self.assertEqual((ended.returncode, ended.stderr), (0, b""))
        self.assertIn("total transitions", json.loads((self.folder / "gone.json").read_text()))

    def test_a_next_step_can_be_pasted_wherever_the_run_lies(self):
        write_run(self.work / "a b", CONFIG, METRICS)
        out = self.command("a b")[1]
        self.assertIn("ddp-ppo compare 'a b' OTHER_RUN", out)
        self.assertIn("ddp-ppo evaluate 'a b'", out)

    @unittest.skipUnless(BROWSER, "no Chromium is installed")
    def test_a_browser_shows_the_values_under_the_cursor(self):
        with Browser(1200, 900) as browser:
            browser.open(self.report.as_uri())
            browser.wait_for("document.readyState === 'complete'")
            self.assertRegex(browser.value(HOVER), r"^at \d+$")
            self.assertEqual(browser.value("document.querySelector('.chart .cursor').style.visibility"), "visible")

    @unittest.skipUnless(BROWSER, "no Chromium is installed")
    def test_no_page_is_wider_than_a_phone(self):
        with Browser(390, 844) as browser:
            browser.open(self.report.as_uri())
            browser.wait_for("document.readyState === 'complete'")
            browser.value("document.querySelectorAll('details').forEach(one => one.open = true)")
            self.assertLessEqual(browser.value("document.documentElement.scrollWidth"), browser.value("innerWidth"))
            cut = "[...document.querySelectorAll('.card')].filter(one => one.scrollWidth > one.clientWidth).length"
            self.assertEqual(browser.value(cut), 0)


if __name__ == "__main__":
    unittest.main()
