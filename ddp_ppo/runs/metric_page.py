"""The table of metrics as a Markdown document, docs/metrics.md. Torch-free."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ddp_ppo.runs.metric_table import METRICS, Metric, MetricTable

_INTRODUCTION = """\
# Metrics

The columns of `metrics.csv`, which has one row per round; this page is what `ddp-ppo metrics` prints. An empty cell
means that there was nothing to report. A metric gets its column in the first round that reports it.

With several learners a value is their mean, weighted by samples, or their sum. What is the same for all of them, or
measured by one of them alone, is the value of rank 0. Two equal runs differ in `time/*` and `resource/*` alone.

TensorBoard (`tensorboard --logdir output`) shows the same names over `env_steps`. Its tab Custom Scalars
(`http://localhost:6006/#custom_scalars`) is the page to watch: does it learn, is it healthy, how is it scaled, where
does time go, what does it use. Its tab HParams compares runs, the settings that differ first. `ddp-ppo play` adds
pictures of the episode.
"""


def metrics_reference(learners: Mapping[str, MetricTable]) -> str:
    """All metrics as a Markdown document.

    Args:
        learners: each learner's rows, by the value of the setting `learner`.
    """
    lines = [_INTRODUCTION, "## Every run", "", *_table(METRICS)]
    for name, rows in learners.items():
        lines += ["", f"## With `learner: {name}`", "", *_table(rows)]
    return "\n".join(lines) + "\n"


def _table(rows: MetricTable) -> Iterator[str]:
    yield "| name | unit | over learners | meaning | look at it when |"
    yield "|---|---|---|---|---|"
    for row in rows:
        reduction = f"{row.reduction}, min, max" if row.has_extremes else row.reduction
        yield f"| `{_name(row)}` | {row.unit} | {reduction} | {row.doc} | {row.advice} |"


def _name(row: Metric) -> str:
    return f"{row.name}<name>" if row.is_prefix else row.name
