"""From the result of `bench/scaling.py` to the tables and sentences of docs/scaling.md.

Every figure in them comes from the result; a section of the document lies between `<!-- NAME -->` and `<!-- /NAME -->`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

Result = Mapping[str, Any]

# What a run measures -> the stages of the model that it holds.
MEASURED_STAGES = {
    "sample": ("sample", "idle"),
    "annotate": ("annotate",),
    "transfer": ("transfer",),
    "train": ("train",),
    "sync": ("sync", "all_reduce", "wait"),
    "write": ("write",),
}


def sections(result: Result) -> dict[str, str]:
    """Name -> Markdown of every section."""
    return {
        "machine": machine(result),
        "scaling": scaling(result),
        "split": split(result),
        "parts": parts(result),
        "costs": costs(result),
        "larger": larger(result),
        "limits": limits(result),
    }


def fill(text: str, texts: Mapping[str, str]) -> str:
    """The document with these sections in the place of its old ones.

    Raises:
        ValueError: a section is not there exactly once.
    """
    for name, body in texts.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        places = list(pattern.finditer(text))
        if len(places) != 1:
            raise ValueError(f"section {name} is there {len(places)} times, it should be once")
        start, end = places[0].end(1), places[0].start(2)
        text = f"{text[:start]}\n{body}\n\n{text[end:]}"
    return text


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def machine(result: Result) -> str:
    """Where and how long it was measured."""
    about, versions = result["machine"], result["machine"]["versions"]
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    return (
        f"{about['cpu']}, {about['cores']} cores, Python {about['python']}, {listed}; load {about['load']} before the "
        f"first run. {result['rounds']} rounds per run, every setup run {result['repeats']} time(s), in turn."
    )


def scaling(result: Result) -> str:
    """Speed-up and efficiency of each series against its first setup."""
    speeds = {tuple(run["key"]): run for run in result["runs"]}
    rows = []
    for series in result["series"]:
        base = speeds[tuple(series["keys"][0])]["steps_per_second"]
        for key, times in zip(series["keys"], series["times"], strict=True):
            run = speeds[tuple(key)]
            speedup = run["steps_per_second"] / base
            spread = f"{min(run['repeats']):,.0f} to {max(run['repeats']):,.0f}"
            efficiency = f"{speedup / times:.0%}"
            rows.append(
                [series["name"], *key[:3], f"{run['steps_per_second']:,.0f}", spread, f"{speedup:.2f}", efficiency]
            )
    header = ("series", "learners", "actors each", "environments each", "steps/s", "runs", "speed-up", "efficiency")
    return table(header, rows)


def split(result: Result) -> str:
    """Measured and predicted milliseconds of each stage of each run, and the largest errors."""
    rows = []
    for run in result["runs"]:
        name = name_of(run["key"]) + (" (check)" if run["is_check"] else "")
        cells = [
            f"{1000 * run['stages'][stage]:.1f} / {1000 * sum(run['predicted'][part] for part in held):.1f}"
            for stage, held in MEASURED_STAGES.items()
        ]
        rows.append([name, *cells, *_pair(run["steps_per_second"], run["predicted_steps_per_second"])])
    header = ("learners x actors x environments", *MEASURED_STAGES, "steps/s", "predicted", "error")
    errors = [[abs(_error(run)) for run in result["runs"] if run["is_check"] is is_check] for is_check in (False, True)]
    return (
        f"{table(header, rows)}\n\nLargest error of steps/s: {max(errors[0]):.0%} over the {len(errors[0])} runs that "
        f"the costs were fitted to, {max(errors[1]):.0%} over the {len(errors[1])} that were not (check)."
    )


def name_of(key: Sequence[int]) -> str:
    """A setup in words."""
    return "{} x {} x {}, {} steps, mini-batch {}".format(*key)


def _error(run: Mapping[str, Any]) -> float:
    return float(run["predicted_steps_per_second"] / run["steps_per_second"] - 1.0)


def _pair(measured: float, predicted: float) -> list[str]:
    return [f"{measured:,.0f}", f"{predicted:,.0f}", f"{predicted / measured - 1.0:+.0%}"]


def parts(result: Result) -> str:
    """What was measured part by part."""
    probes = result["probes"]
    step = table(
        ("environments", "complete step, us", "MuJoCo", "policy", "the rest", "us per environment"),
        [
            [
                one["envs_per_actor"],
                *(f"{1e6 * one[name]:.1f}" for name in ("loop", "physics", "inference")),
                f"{1e6 * (one['loop'] - one['physics'] - one['inference']):.1f}",
                f"{1e6 * one['loop'] / one['envs_per_actor']:.1f}",
            ]
            for one in probes["actor_step"]
        ],
    )
    side = table(
        ("actors", "commands and answers, ms", "us per actor", "statistics merged, ms", "memory of an actor, MB"),
        [
            [
                one["num_actors"],
                f"{1e3 * one['handshake']:.2f}",
                f"{1e6 * one['handshake'] / one['num_actors']:.0f}",
                f"{1e3 * one['merge']:.2f}",
                f"{one['actor_bytes'] / 1e6:.0f}",
            ]
            for one in probes["learner_side"]
        ],
    )
    sizes = table(
        ("bytes", "all_reduce, ms", "broadcast, ms", "publish, ms", "checksum, ms"),
        [
            [
                f"{one['num_bytes']:,}",
                *(f"{1e3 * one[name]:.3f}" for name in ("all_reduce", "broadcast")),
                *(f"{1e3 * other[name]:.3f}" for name in ("publish", "checksum")),
            ]
            for one, other in zip(probes["collectives"], probes["publishing"], strict=True)
        ],
    )
    rows = ", ".join(f"{one['num_learners']}: {1e3 * one['seconds']:.2f} ms" for one in probes["rows_of_learners"])
    return "\n\n".join((step, side, sizes, f"Merging the rows of N learners, N: {rows}."))


def costs(result: Result) -> str:
    """The costs of the model."""
    about = {
        "actor_step": "a step of an actor, regardless of its environments",
        "env_step": "a step of one environment",
        "answer": "command and answer of one actor (measured alone)",
        "answer_pair": "additional cost per pair of actors (measured alone)",
        "actor_spread": "spread of the actors' seconds, relative",
        "annotate": "annotating a rollout",
        "annotate_sample": "annotating a sample",
        "transfer_one_core": "loading a round, one core",
        "transfer_sample_one_core": "loading a sample, one core",
        "transfer_two_cores": "loading a round, two cores",
        "transfer_sample_two_cores": "loading a sample, two cores",
        "gradient_step_one_core": "a gradient step, one core",
        "gradient_sample_one_core": "a sample of a gradient step, one core",
        "gradient_step_two_cores": "a gradient step, two cores",
        "gradient_sample_two_cores": "a sample of a gradient step, two cores",
        "sync": "agreeing on a round",
        "merge_actor": "merging the statistics of one actor (measured alone)",
        "merge_learner": "merging the row of one learner (measured alone)",
        "publish_byte": "checking and publishing a byte of parameters (measured alone)",
        "checksum_byte": "the checksum of a byte (measured alone)",
        "learner_spread": "spread of the learners' seconds, relative",
        "write": "a row of metrics",
    }
    rows = [[text, _cost(name, result["costs"][name])] for name, text in about.items()]
    network, messages = result["gloo"], result["messages"]
    rows += [
        ["gloo: a hop between two learners (measured alone)", f"{1e6 * network['hop']:.0f} us"],
        ["gloo: bandwidth (measured alone)", f"{1e-9 / network['byte']:.2f} GB/s"],
        ["averaged per round: parameters and Adam's moments", f"{messages['vector']:,} bytes"],
        ["statistics and metrics of a learner", f"{messages['row']:,} bytes"],
    ]
    return table(("cost", "value"), rows)


def _cost(name: str, value: float) -> str:
    if name.endswith("_spread"):
        return f"{value:.1%}"
    return f"{1e9 * value:,.2f} ns" if value < 1e-7 else f"{1e6 * value:,.2f} us"


def larger(result: Result) -> str:
    """Predicted rounds on larger machines."""
    rows, alone = [], math.nan
    for one in result["larger"]:
        setup, stages = one["setup"], one["stages"]
        alone = one["steps_per_second"] if setup["num_learners"] == 1 else alone
        total = sum(stages.values())
        slowest = max(stages, key=stages.__getitem__)
        rows.append(
            [
                one["shape"],
                one["place"],
                f"{setup['num_learners']} x {setup['num_actors']} x {setup['envs_per_actor']}",
                *(f"{1e3 * sum(stages[part] for part in held):.1f}" for held in MEASURED_STAGES.values()),
                f"{one['steps_per_second']:,.0f}",
                f"{one['steps_per_second'] / alone / setup['num_learners']:.0%}",
                f"{slowest} {stages[slowest] / total:.0%}",
            ]
        )
    header = ("round", "on", "learners x actors x environments", *(f"{stage}, ms" for stage in MEASURED_STAGES))
    assumed = table(("assumed", "value"), list(result["assumed"].items()))
    return f"{assumed}\n\n{table((*header, 'steps/s', 'efficiency', 'largest stage'), rows)}"


def limits(result: Result) -> str:
    """What breaks first, in words and figures."""
    texts = []
    for shape in dict.fromkeys(one["shape"] for one in result["limits"]):
        places = [one for one in result["limits"] if one["shape"] == shape]
        verdicts = [f"- On {one['place']}: {verdict(one['limits'], one['sampling'])}" for one in places]
        texts.append("\n".join((f"**{shape}**", "", *verdicts, "", limit_table(places))))
    return "\n\n".join((*texts, overheads(result)))


def limit_table(places: Sequence[Mapping[str, Any]]) -> str:
    """The growing costs of a shape on each of its places; the counts are the last one's."""
    seconds = [{limit["name"]: limit["seconds"] for limit in one["limits"]} for one in places]
    rows = [
        [
            limit["name"],
            limit["grows_with"],
            *(f"{1e3 * one[limit['name']]:.2f}" for one in seconds),
            f"{limit['here']:,}",
            "never" if limit["at"] is None else f"{limit['at']:,}",
        ]
        for limit in places[-1]["limits"]
    ]
    times = [f"ms on {one['place']}" for one in places]
    return table(("cost", "grows with", *times, "count there", "equal to sampling at"), rows)


def verdict(found: Sequence[Mapping[str, Any]], sampling: float) -> str:
    """Which cost breaks first, and the one after it."""
    sentences = []
    for limit, order in zip(found, ("first", "then"), strict=False):
        at, grows_with = limit["at"], limit["grows_with"]
        took = f"{1e3 * limit['seconds']:.1f} ms per round against {1e3 * sampling:.1f} ms of sampling"
        if at is None:
            where = f"(below it for any number of {grows_with})"
        elif limit["seconds"] >= sampling:
            where = f"(equal at {at:,} of {limit['here']:,} {grows_with})"
        else:
            where = f"(equal at {at:,} {grows_with}, {at / limit['here']:.1f} times as many)"
        sentences.append(f"{order} {limit['name']}, {took} {where}")
    return "; ".join(sentences) + "."


def overheads(result: Result) -> str:
    """What does not grow with the machine, or does not take time."""
    found, probes = result["costs"], result["probes"]
    step = next(one for one in probes["actor_step"] if one["envs_per_actor"] == 8)
    fixed = found["sync"] + found["write"] + found["annotate"]
    side = probes["learner_side"][-1]
    shape = result["larger"][0]["shape"]
    first = [one for one in result["larger"][1:] if one["shape"] == shape]
    num_actors = {one["place"]: one["setup"]["num_learners"] * one["setup"]["num_actors"] for one in first}
    memory = ", ".join(f"{number * side['actor_bytes'] / 1e9:.1f} GB on {on}" for on, number in num_actors.items())
    answers = ", ".join(f"{number * side['answer_bytes'] / 1e6:.1f} MB on {on}" for on, number in num_actors.items())
    lines = [
        f"A step of an actor with 8 environments takes {1e6 * step['loop']:.0f} us, of them MuJoCo "
        f"{step['physics'] / step['loop']:.0%} and the policy {step['inference'] / step['loop']:.0%}; the rest is "
        f"rewards, observations and Python, on any machine.",
        f"Every round costs {1e3 * fixed:.1f} ms whatever its size, as much as "
        f"{math.ceil(fixed / step['loop'])} such steps: shorter rollouts spend more on it than on sampling.",
        f"An actor needs {side['actor_bytes'] / 1e6:.0f} MB: {memory}.",
        f"Its answer, which a checkpoint gathers from every actor, has {side['answer_bytes']:,} bytes: {answers}.",
    ]
    return "\n".join(f"- {line}" for line in lines)
