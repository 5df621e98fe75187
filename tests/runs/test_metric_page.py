"""docs/metrics.md is the table of metrics."""

import contextlib
import io
import unittest

from ddp_ppo.__main__ import main
from ddp_ppo.runs.metric_page import metrics_reference
from ddp_ppo.runs.metric_table import Metric
from tests.support.process import ROOT


class PageTest(unittest.TestCase):
    def test_the_metrics_page_is_what_the_command_prints(self):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            self.assertEqual(main(["metrics"]), 0)
        self.assertEqual((ROOT / "docs" / "metrics.md").read_text(), printed.getvalue())

    def test_a_learner_s_rows_stand_under_its_name(self):
        rows = [Metric(name="train/a", unit="s", reduction="sum", doc="what", advice="when"), Metric(name="own/")]
        section = metrics_reference({"sac": rows}).partition("## With `learner: sac`\n\n")[2]
        lines = section.splitlines()
        self.assertEqual(lines[0], "| name | unit | over learners | meaning | look at it when |")
        self.assertEqual(lines[2:], ["| `train/a` | s | sum | what | when |", "| `own/<name>` |  | mean |  |  |"])


if __name__ == "__main__":
    unittest.main()
