"""What the metrics of a run are: one table that its files, pages, checks and documents read. Torch-free.

`METRICS` has those of every run. A learner adds rows for what it measures (`LearnerKind.metrics`), and a run keeps all
its rows in its folder, so that a report needs neither the learner nor this release. A metric without a row is written
and drawn all the same, under its bare name.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

TABLE_FILE = "metric_table.json"  # in a run folder
QUESTIONS = {
    "learn": "Does it learn?",
    "health": "Is it healthy?",
    "scale": "How are observations and rewards scaled?",
    "time": "Where does time go?",
    "machine": "What does it use?",
}
STAGES = {  # of a round, in the names of time/*_seconds; idle time is a part of sampling
    "sample": "sampling",
    "annotate": "values and advantages",
    "transfer": "moving to the device",
    "train": "gradient steps",
    "sync": "between learners",
    "record": "evaluation and files",
}

# Names that are read elsewhere. Rules and pages know the learners' names too: who reports one gets what belongs to it.
BUFFER_SIZE = "buffer_size"
GRADIENT_STEPS, LEARNING_RATE = "train/gradient_steps", "train/learning_rate"
LOSS, VALUE_LOSS, EXPLAINED_VARIANCE = "train/loss", "train/value_loss", "train/explained_variance"
KL, CLIP_FRACTION = "train/approx_kl", "train/clip_fraction"
ENTROPY, ACTION_STD, GRAD_NORM = "train/entropy", "train/action_std", "train/grad_norm"
EPISODES, TRAINING_RETURN = "rollout/episodes", "rollout/episode_return_mean"
EPISODE_LENGTH, TERMINATED_FRACTION = "rollout/episode_length_mean", "rollout/terminated_fraction"
SCORE, SCORE_STD, SCORE_LENGTH = "eval/return_mean", "eval/return_std", "eval/length_mean"
REWARD_TERMS = "reward/"
STEPS_PER_SECOND, ELAPSED_SECONDS = "time/steps_per_second", "time/elapsed_seconds"
LEARNER_MEMORY, LEARNER_CORES = "resource/learner_memory_mib", "resource/learner_cores"
ACTOR_MEMORY, LARGEST_ACTOR = "resource/actor_memory_mib", "resource/largest_actor_mib"
ACTOR_CORES, GPU_MEMORY = "resource/actor_cores", "resource/gpu_memory_mib"
OBS_COUNT, OBS_MEAN = "normalizer/obs_count", "normalizer/largest_obs_mean"
OBS_STD_MIN, OBS_STD_MAX = "normalizer/obs_std_min", "normalizer/obs_std_max"
REWARD_SCALE = "normalizer/reward_scale"
MEASURED = ("time/", "resource/")  # beginnings of what a clock or the kernel tells, which differs between equal runs


def seconds_of(stage: str) -> str:
    """The metric of a stage's time: one of STAGES, "idle" or "round"."""
    return f"time/{stage}_seconds"


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A row of the table.

    Attributes:
        name: as in the CSV; with a slash at its end the beginning of several names, such as the reward's terms.
        doc: what it is, in a sentence for the documents.
        advice: when to look at it, and at what then.
        unit: of its values; empty for a plain number.
        reduction: what becomes of several learners' values: their mean, weighted by samples, their sum or the largest
            one; "rank 0" where only that learner has one.
        has_extremes: whether the smallest and the largest value of several learners are shown too, under its name
            with _min and _max behind it.
        can_be_empty: whether a round that has trained may have nothing to report.
        question: the one that it helps to answer, a key of QUESTIONS; empty for none.
        title, label: of its chart and of its curve in there; rows with the same title share the chart.
        is_log: whether that has a logarithmic axis.
        mark: a setting whose value is drawn as a line.
        console: the word for it in the line of a round; empty where it does not belong there.
        is_compared: whether it is drawn where runs are compared.
    """

    name: str
    doc: str = ""
    advice: str = ""
    unit: str = ""
    reduction: Literal["mean", "sum", "max", "rank 0"] = "mean"
    has_extremes: bool = False
    can_be_empty: bool = False
    question: str = ""
    title: str = ""
    label: str = ""
    is_log: bool = False
    mark: str = ""
    console: str = ""
    is_compared: bool = False

    @property
    def is_prefix(self) -> bool:
        """Whether it stands for all names that begin with its own."""
        return self.name.endswith("/")

    def label_of(self, name: str) -> str:
        """The label of the curve of this name."""
        return name.removeprefix(self.name) if self.is_prefix else self.label


MetricTable = Sequence[Metric]


def _stage(name: str, doc: str, advice: str = "") -> Metric:
    title = f"{STAGES[name].capitalize()}, seconds of a round"
    reduction: Literal["mean", "rank 0"] = "mean" if name == "transfer" else "rank 0"
    return Metric(
        name=seconds_of(name), doc=doc, advice=advice, unit="s", question="time", title=title, reduction=reduction
    )


# fmt: off
METRICS: tuple[Metric, ...] = (  # in the order of the charts
    Metric(name="round", doc="rounds done so far", reduction="rank 0"),
    Metric(name="env_steps", doc="environment steps of all learners so far", reduction="rank 0"),
    Metric(name=BUFFER_SIZE, doc="samples that this round trained on", reduction="sum"),
    Metric(name=GRADIENT_STEPS, doc="gradient steps of this round", reduction="sum"),
    Metric(name=EPISODES, doc="episodes that ended in this round", reduction="sum",
           advice="0 for long: no time limit"),
    Metric(name=TRAINING_RETURN, question="learn", title="Return", label="training", can_be_empty=True,
           is_compared=True, doc="mean raw return of the episodes that ended in this round, whose actions are sampled"),
    Metric(name=SCORE, reduction="rank 0", question="learn", title="Return", label="evaluation", can_be_empty=True,
           mark="solved_return", is_compared=True,
           doc="mean raw return of `eval_episodes` episodes on fixed seeds with the policy's best actions",
           advice="this is the score; it chooses the best model"),
    Metric(name=SCORE_STD, reduction="rank 0", can_be_empty=True,
           doc="standard deviation of the returns of an evaluation"),
    Metric(name=EPISODE_LENGTH, unit="steps", question="learn", title="Episode length", label="training",
           can_be_empty=True, is_compared=True, doc="mean length of the episodes that ended in this round",
           advice="always short: see why they end"),
    Metric(name=SCORE_LENGTH, reduction="rank 0", unit="steps", question="learn", title="Episode length",
           label="evaluation", can_be_empty=True, doc="mean length of the episodes of an evaluation"),
    Metric(name=REWARD_TERMS, question="learn", title="Terms of the reward, mean of a step", can_be_empty=True,
           doc="mean of a term of the reward in a step, for each `reward_<name>` in the environment's infos; of some "
               "steps only where looking at all of them would take time",
           advice="the return rises and this falls: weights of the reward's terms"),
    Metric(name="reward/episode_return/", question="learn", title="Return of each task", can_be_empty=True,
           doc="several tasks at once: mean raw return of the episodes of this task that ended in this "
               "round, mean over the actors",
           advice="one rises while another falls"),
    Metric(name=TERMINATED_FRACTION, question="learn", title="Terminated episodes", can_be_empty=True,
           label="share that the task itself ended",
           doc="share of the episodes of this round that the task itself ended; the others met a time limit"),
    Metric(name="rollout/policy_lag", unit="rounds", reduction="rank 0",
           doc="how much older the policy that sampled is than the one that is trained; 1 with `overlap`"),
    Metric(name="sync/distinct_parameters", reduction="rank 0",
           doc="number of different parameter vectors among the learners after the round; 1 right after a sync",
           advice="more than 1 after a sync: a defect"),
    Metric(name=STEPS_PER_SECOND, reduction="rank 0", question="time", title="Steps per second", label="all learners",
           is_compared=True, doc="environment steps of all learners per second of this round"),
    _stage("sample", "stepping environments and acting", "large: more actors, or more environments for each"),
    _stage("annotate", "values, log-probabilities and advantages of the rollout, by the slowest actor"),
    _stage("transfer", "moving the rollout to the learner's device and normalising it"),
    _stage("train", "epochs of gradient steps", "large: larger mini-batches, fewer epochs"),
    _stage("sync", "collectives, waiting for slower learners included", "large: learners are unequally fast"),
    _stage("record", "evaluation of this round, files of the previous round", "large: raise `eval_interval`"),
    Metric(name=seconds_of("idle"), unit="s", question="time", label="mean over actors",
           title="Waiting for the slowest actor, seconds",
           doc="how long an actor waits on average for the slowest one; a part of sampling",
           advice="large: environments of unequal speed"),
    Metric(name=seconds_of("round"), unit="s", reduction="rank 0",
           doc="all stages together, from one row to the next"),
    Metric(name=ELAPSED_SECONDS, unit="s", reduction="rank 0",
           doc="time of training so far, earlier sessions of a resumed run included"),
    Metric(name=OBS_COUNT, can_be_empty=True, reduction="rank 0",
           doc="samples in the statistics of the observations, all learners and rounds together"),
    Metric(name=OBS_MEAN, question="scale", title="Largest mean of an observation", can_be_empty=True,
           label="absolute value", reduction="rank 0",
           doc="largest absolute mean of an observation column, as it is normalised with after this round"),
    Metric(name=OBS_STD_MIN, question="scale", title="Spread of the observations", can_be_empty=True,
           label="smallest std", is_log=True, reduction="rank 0",
           doc="smallest standard deviation of an observation column after this round; 0 if one never changes"),
    Metric(name=OBS_STD_MAX, question="scale", title="Spread of the observations", can_be_empty=True,
           label="largest std", is_log=True, reduction="rank 0",
           doc="largest standard deviation of an observation column after this round",
           advice="it grows without end: a quantity that drifts, such as a position or a time"),
    Metric(name=REWARD_SCALE, question="scale", title="Reward scale", label="factor of every reward",
           can_be_empty=True, is_log=True, reduction="rank 0",
           doc="what rewards are multiplied by after this round; returns are raw everywhere else",
           advice="it jumps: rare huge rewards"),
    Metric(name=LEARNER_MEMORY, unit="MiB", question="machine", title="Memory, MiB", label="learners",
           reduction="sum", can_be_empty=True,
           doc="resident memory of the learners' processes; here and below memory that processes share counts in each",
           advice="it grows in every round: a leak"),
    Metric(name=ACTOR_MEMORY, unit="MiB", question="machine", title="Memory, MiB", label="actors", reduction="sum",
           can_be_empty=True, doc="resident memory of all actors and of the processes that their environments start",
           advice="it grows in every round: an environment that leaks"),
    Metric(name=LARGEST_ACTOR, unit="MiB", question="machine", title="Memory, MiB", label="largest actor",
           reduction="max", can_be_empty=True, doc="resident memory of the largest actor"),
    Metric(name=GPU_MEMORY, unit="MiB", question="machine", title="GPU memory, MiB", label="largest of a learner",
           reduction="max", can_be_empty=True, doc="memory that PyTorch holds on a learner's GPU"),
    Metric(name=LEARNER_CORES, unit="cores", question="machine", title="Busy cores", label="learners",
           reduction="sum", can_be_empty=True,
           doc="CPU cores that the learners kept busy, mean of about half a second or a round",
           advice="far below `learner_threads` while `time/train_seconds` is large: other programs"),
    Metric(name=ACTOR_CORES, unit="cores", question="machine", title="Busy cores", label="actors", reduction="sum",
           can_be_empty=True, doc="CPU cores that all actors kept busy, mean of the same time",
           advice="far below the number of actors while `time/sample_seconds` is large: environments that wait"),
)
# fmt: on


def row_of(table: MetricTable, name: str) -> Metric | None:
    """The row of a metric: that of its name, else that of its longest beginning; None where nobody has listed it."""
    fitting = [row for row in table if row.name == name or (row.is_prefix and name.startswith(row.name))]
    return max(fitting, key=lambda row: len(row.name), default=None)


def charts(table: MetricTable, question: str, names: Iterable[str]) -> dict[str, list[tuple[Metric, str]]]:
    """The charts that answer a question: title -> (row, name) of each metric among `names`, in the table's order."""
    rows = [(row_of(table, name), name) for name in names]
    found: dict[str, list[tuple[Metric, str]]] = {}
    for row in table:
        if row.question == question and (own := [(row, name) for other, name in rows if other is row]):
            found.setdefault(row.title, []).extend(own)
    return found


def title_alone(table: MetricTable, row: Metric) -> str:
    """The title of a chart that shows this metric alone: "Training return" where another one shares "Return"."""
    is_shared = any(other.title == row.title and other.name != row.name for other in table)
    return f"{row.label.capitalize()} {row.title.lower()}" if is_shared else row.title


def merged(tables: Iterable[MetricTable]) -> MetricTable:
    """The rows of several runs; of rows with the same name the first."""
    rows: dict[str, Metric] = {}
    for row in (row for table in tables for row in table):
        rows.setdefault(row.name, row)
    return tuple(rows.values())


def save_table(path: Path, table: MetricTable) -> None:
    """Writes a run's table as JSON; raises OSError."""
    path.write_text(json.dumps([dataclasses.asdict(row) for row in table], indent=1) + "\n")


def read_table(path: Path) -> MetricTable:
    """A run's table, without what another release has added to its rows; `METRICS` where the run has left none.

    Raises:
        ValueError: it is not such a file.
    """
    if not path.exists():
        return METRICS
    fields = {field.name for field in dataclasses.fields(Metric)}
    try:
        return tuple(Metric(**{k: v for k, v in row.items() if k in fields}) for row in json.loads(path.read_text()))
    except (AttributeError, TypeError):
        raise ValueError(f"{path.name} is not a list of metrics with a name each") from None
