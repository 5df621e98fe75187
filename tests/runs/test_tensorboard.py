"""What TensorBoard shows, read back by its own reader, and looked at in a browser where there is one."""

import json
import logging
import math
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins.base_plugin import TBContext
from tensorboard.plugins.custom_scalar.custom_scalars_plugin import CustomScalarsPlugin
from tensorboard.plugins.custom_scalar.layout_pb2 import Layout
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from ddp_ppo.runs.csv_log import CsvLog
from ddp_ppo.runs.metric_table import METRICS, QUESTIONS, Metric
from ddp_ppo.runs.tensorboard import TensorBoardLog
from tests.support.browser import BROWSER, Browser, wait_until
from tests.support.process import TINY, FolderTestCase, read_csv

logging.getLogger("tensorboard").setLevel(logging.ERROR)  # it warns of every resume that it finds

NAN = math.nan
TERMS = "Terms of the reward, mean of a step"
LAYOUT, SETTINGS = "custom_scalars__config__", "_hparams_/session_start_info"
# A page with the documents of its components: the texts in it, and how many curves have a length.
TEXTS = """(function texts(root) {
  return [...root.querySelectorAll("*")].flatMap(one =>
    [...(one.shadowRoot ? texts(one.shadowRoot) : []), ...(one.childElementCount ? [] : [one.textContent.trim()])]);
})(document)"""
NUM_CURVES = """(function curves(root) {
  return [...root.querySelectorAll("*")].reduce((count, one) =>
    count + (one.shadowRoot ? curves(one.shadowRoot) : 0) + (one.tagName === "path" && one.getTotalLength() > 20), 0);
})(document)"""


def row(round_index, **values):
    return {"round": float(round_index), "env_steps": 64.0 * round_index, "train/value_loss": 0.1, **values}


class TensorBoardTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def write(self, rows, *, after_step=0):
        settings = {"seed": 1, "gamma": 0.99, "env_id": "A"}
        log = TensorBoardLog(self.folder / "tensorboard", METRICS, after_step=after_step, settings=settings)
        for values in rows:
            log.write(values, int(values["env_steps"]))
        log.close()

    def read(self):
        accumulator = EventAccumulator(str(self.folder / "tensorboard"))
        accumulator.Reload()
        return accumulator

    def points(self, tag):
        return [(event.step, event.value) for event in self.read().Scalars(tag)]

    def test_names_and_values_are_those_of_the_csv(self):  # C16
        rows = [row(i, **{"a/x": i / 3, "b": -1e30, "sometimes": NAN if i % 2 else 5.0}) for i in range(1, 5)]
        self.write(rows)
        log = CsvLog(self.folder / "metrics.csv", after_round=0)
        for values in rows:
            log.write(values)
        log.close()
        lines = read_csv(self.folder / "metrics.csv")
        self.assertEqual(set(self.read().Tags()["scalars"]), set(lines[0]))
        for tag in lines[0]:
            expected = [(int(line["env_steps"]), float(np.float32(line[tag]))) for line in lines if line[tag]]
            self.assertEqual(self.points(tag), expected, tag)

    def test_nothing_to_report_is_no_point(self):
        self.write([row(1, a=NAN), row(2, a=1.0), row(3, a=NAN)])
        self.assertEqual(self.points("a"), [(128, 1.0)])

    def test_resume_hides_what_lies_behind_its_checkpoint(self):  # O-55
        self.write([row(i, a=float(i)) for i in range(1, 8)])
        self.write([row(i, a=10.0 * i) for i in range(6, 9)], after_step=5 * 64)
        expected = [(64 * i, float(i)) for i in range(1, 6)] + [(64 * i, 10.0 * i) for i in range(6, 9)]
        self.assertEqual(self.points("a"), expected)
        for tag in self.read().Tags()["scalars"]:
            steps = [step for step, _ in self.points(tag)]
            self.assertEqual(steps, sorted(set(steps)), tag)

    def test_text_can_be_read(self):
        log = TensorBoardLog(self.folder / "tensorboard", METRICS, settings={})
        log.write_text("config", "seed: 1 ö", 0)
        log.close()
        (event,) = self.read().Tensors("config")
        self.assertEqual(event.tensor_proto.string_val[0].decode(), "seed: 1 ö")


class LateMetricTest(unittest.TestCase):
    def shown(self, rows, table=METRICS, **options):
        """{question: {chart: its expressions}} of the page that TensorBoard itself shows after these rows."""
        with tempfile.TemporaryDirectory() as folder:
            log = TensorBoardLog(Path(folder) / "run", table, settings={}, **options)
            for values in rows:
                log.write(values, int(values["env_steps"]))
            log.close()
            multiplexer = EventMultiplexer().AddRunsFromDirectory(folder)
            multiplexer.Reload()
        context = TBContext(data_provider=MultiplexerDataProvider(multiplexer, folder))
        page = CustomScalarsPlugin(context).layout_impl(RequestContext(), "")
        return {
            category["title"]: {chart["title"]: chart["multiline"]["tag"] for chart in category.get("chart", [])}
            for category in json.loads(page)["category"]
        }

    def test_a_metric_that_is_first_reported_later_gets_its_chart(self):
        self.assertNotIn("Does it learn?", self.shown([row(1)]))
        shown = self.shown([row(1), row(2, **{"reward/goal": 1.0}), row(3, **{"rollout/terminated_fraction": 0.5})])
        self.assertEqual(list(shown["Does it learn?"]), [TERMS, "Terminated episodes"])

    def test_a_chart_comes_with_the_first_value(self):
        shown = self.shown([row(1, **{"rollout/terminated_fraction": NAN}), row(2, **{"reward/goal": 1.0})])
        self.assertEqual(list(shown["Does it learn?"]), [TERMS])

    def test_what_a_resumed_run_has_reported_keeps_its_chart(self):
        shown = self.shown([row(1)], after_step=64, reported=["eval/return_mean"])
        self.assertEqual(list(shown["Does it learn?"]), ["Return"])

    def test_a_learner_s_rows_have_their_charts(self):
        table = (*METRICS, Metric(name="train/own", question="health", title="Own"))
        shown = self.shown([row(1, **{"train/own": 1.0, "train/unlisted": 1.0})], table)
        self.assertEqual(shown["Is it healthy?"], {"Own": ["train/own$"]})

    def test_returns_of_tasks_are_not_drawn_among_the_terms_of_the_reward(self):
        names = ("reward/forward", "reward/ctrl", "reward/episode_return/A-v0", "reward/episode_return/B-v0")
        charts = self.shown([row(1, **dict.fromkeys(names, 1.0))])["Does it learn?"]
        matching = {title: [name for name in names if re.match(tag, name)] for title, (tag,) in charts.items()}
        self.assertEqual(matching, {TERMS: list(names[:2]), "Return of each task": list(names[2:])})


class PagesTestCase(FolderTestCase):
    """A short run, and what it left for TensorBoard."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.train(cls.config("tiny", TINY), "run_name=a", "learning_rate=0.002", "overlap=true")
        cls.home = cls.work / "output" / "tiny-a"
        cls.events = EventAccumulator(str(cls.home / "tensorboard")).Reload()

    def charts(self):
        """{question: {chart: [names that its expressions match]}} of the page that the run has written."""
        event = self.events.Tensors(LAYOUT)[-1]
        layout = Layout.FromString(event.tensor_proto.string_val[0])
        shown = self.events.Tags()["scalars"]
        return {
            category.title: {
                chart.title: [name for tag in chart.multiline.tag for name in shown if re.match(tag, name)]
                for chart in category.chart
            }
            for category in layout.category
        }


class PagesTest(PagesTestCase):
    def test_the_questions_are_answered_by_charts_with_curves(self):
        charts = self.charts()
        self.assertEqual(list(charts), list(QUESTIONS.values()))
        for question, found in charts.items():
            with self.subTest(question):
                self.assertGreaterEqual(len(found), 2)
                self.assertTrue(all(found.values()))
        self.assertEqual(charts["Does it learn?"]["Return"], ["rollout/episode_return_mean", "eval/return_mean"])
        self.assertEqual(charts["Where does time go?"]["Gradient steps, seconds of a round"], ["time/train_seconds"])
        memory = ["resource/learner_memory_mib", "resource/actor_memory_mib", "resource/largest_actor_mib"]
        self.assertEqual(charts["What does it use?"]["Memory, MiB"], memory)

    def test_what_a_run_does_not_have_is_no_empty_chart(self):
        self.assertNotIn(TERMS, self.charts()["Does it learn?"])  # CartPole's reward has none

    def test_every_setting_that_tells_runs_apart_is_a_column(self):
        content = self.events.SummaryMetadata(SETTINGS).plugin_data.content
        found = HParamsPluginData.FromString(content).session_start_info.hparams
        self.assertEqual(found["learning_rate"].number_value, 0.002)
        self.assertIs(found["overlap"].bool_value, True)
        self.assertEqual(found["env_id"].string_value, "CartPole-v1")
        self.assertEqual(found["hidden_sizes"].string_value, "[8]")
        self.assertEqual(found["ppo.target_kl"].string_value, "null")
        self.assertNotIn("run_name", found)

    def test_the_page_comes_with_the_first_row_so_that_a_live_run_has_it(self):
        event = self.events.Tensors(LAYOUT)[0]
        self.assertEqual(event.step, int(read_csv(self.home / "metrics.csv")[0]["env_steps"]))


@unittest.skipUnless(BROWSER, "no Chromium is installed")
class BrowserTest(PagesTestCase):
    def test_tensorboard_shows_the_questions_and_draws_their_curves(self):
        with tempfile.TemporaryFile("w+") as output, Browser(1400, 1000) as browser:
            words = [sys.executable, "-m", "tensorboard.main", "--logdir", self.home, "--port", "0"]
            server = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
            self.addCleanup(server.wait)
            self.addCleanup(server.kill)

            def address():
                output.seek(0)
                return re.search(r"http://\S+", output.read())

            wait_until(address, "address of TensorBoard")
            browser.open(f"{address()[0]}#custom_scalars")
            charts = self.charts()
            for text in (*charts, *charts["Does it learn?"]):
                browser.wait_for(f"{TEXTS}.includes({text!r})")
            browser.wait_for(f"{NUM_CURVES} >= {len(charts['Does it learn?'])}")


if __name__ == "__main__":
    unittest.main()
