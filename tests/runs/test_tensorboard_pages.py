"""What TensorBoard shows besides curves, read back by its own reader, and looked at in a browser where there is one."""

import re
import subprocess
import sys
import tempfile
import unittest

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar.layout_pb2 import Layout
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from ddp_ppo.runs.tensorboard_pages import QUESTIONS
from tests.support.browser import BROWSER, Browser, wait_until
from tests.support.process import TINY, FolderTestCase, read_csv

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
        (event,) = self.events.Tensors(LAYOUT)
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
    def test_three_questions_are_answered_by_charts_with_curves(self):
        charts = self.charts()
        self.assertEqual(list(charts), ["Does it learn?", "Is it healthy?", "Where does time go?"])
        for question, found in charts.items():
            with self.subTest(question):
                self.assertGreaterEqual(len(found), 3)
                self.assertTrue(all(found.values()))
        self.assertEqual(charts["Does it learn?"]["Return of evaluations"], ["eval/return_mean"])
        self.assertEqual(charts["Where does time go?"]["Gradient steps, seconds of a round"], ["time/train_seconds"])

    def test_what_a_run_does_not_have_is_no_empty_chart(self):
        self.assertIn("Parts of the reward", QUESTIONS["Does it learn?"])
        self.assertNotIn("Parts of the reward", self.charts()["Does it learn?"])  # CartPole's reward has none

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
        (event,) = self.events.Tensors(LAYOUT)
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
