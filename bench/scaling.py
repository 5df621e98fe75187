#!/usr/bin/env python3
"""Steps per second with more actors and more learners, and what larger machines would reach.

    python bench/scaling.py --out docs/scaling.md

Trains HalfCheetah with 1, 2 and 4 actors and 1 and 2 learners on this machine's cores, measures the parts of a round
alone (`scaling/probes.py`), fits a cost model to the time split of the runs (`scaling/cost_model.py`) and asks it about
machines with 8 GPUs and 128 cores. About five minutes; nothing else should run. The last line is one JSON object;
`--reuse` takes what was measured from one, to ask the model again under other assumptions.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy; the runs choose their own
sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))
sys.path.insert(0, str(Path(__file__).resolve().parent / "scaling"))

import cost_model
import larger_machines
import probes
import scaling_plot
import scaling_report
from cost_model import Costs, Messages, Network, Setup
from environments import RunError, last_json, run, say
from larger_machines import ABOUT, Assumed
from peers import QUIET_LOAD, machine
from scaling_runs import (
    CHECKS,
    FITTED,
    SERIES,
    WARM_UP_ROUNDS,
    Key,
    environ,
    rounds_of,
    speed,
    summary,
    torchrun,
    train,
)

_LEAST_ROUNDS = WARM_UP_ROUNDS + 5


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, fits, predicts, prints, and writes the document; exits 1 where a run failed."""
    options = parse(arguments)
    assumed = Assumed(**{name: getattr(options, name) for name in ABOUT})
    try:
        measured = reused(options.reuse) if options.reuse else measure(options)
    except RunError as error:
        say(f"scaling.py: {error}")
        return 1
    result = explained(measured, assumed)
    sections = scaling_report.sections(result)
    print("\n\n".join(sections.values()))
    if options.out:
        options.out.write_text(scaling_report.fill(options.out.read_text(), sections))
        draw(result, options.out.with_suffix(".png"))
    print(json.dumps(result))
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100, help="of each run")
    parser.add_argument("--repeats", type=int, default=2, help="runs of each setup")
    parser.add_argument(
        "--pools",
        type=numbers,
        default=[1, 4, 16, 32],
        help="actors whose learner is measured alone, such as 1,4,16,32",
    )
    parser.add_argument("--out", type=Path, help="docs/scaling.md: its sections are replaced, its plot lies beside it")
    parser.add_argument("--reuse", type=Path, help="output of an earlier run; nothing is measured")
    for field in fields(Assumed):
        words = f"--{field.name.replace('_', '-')}", f"{ABOUT[field.name]} (assumed: %(default)s)"
        parser.add_argument(words[0], type=float, default=field.default, help=words[1])
    options = parser.parse_args(arguments)
    if options.rounds < _LEAST_ROUNDS or options.repeats < 1:
        parser.error(f"needs --rounds of at least {_LEAST_ROUNDS} and --repeats of at least 1")
    if options.out and not options.out.exists():
        parser.error(f"--out: {options.out} does not exist; only its sections are replaced")
    return options


def numbers(text: str) -> list[int]:
    """Whole numbers between commas, at least two different ones: a slope needs them."""
    found = sorted({int(number) for number in text.split(",")})
    if len(found) < 2 or found[0] < 1:
        raise ValueError
    return found


def reused(path: Path) -> dict[str, Any]:
    """What an earlier run measured.

    Raises:
        RunError: the last line of the file is not its result.
    """
    result = last_json(path.read_text())
    try:
        names = ("key", "stages", "steps_per_second", "repeats")
        runs = [{name: one[name] for name in names} for one in result["runs"]]
        return {**{name: result[name] for name in ("machine", "rounds", "repeats", "probes")}, "runs": runs}
    except KeyError as error:
        raise RunError(f"--reuse: {path} holds no {error.args[0]}; it should be the output of this script") from None


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Everything that is measured: the parts alone, then the runs in turn, `repeats` times over."""
    about = machine(sys.executable)
    if about["load"] > QUIET_LOAD:
        say(f"note: the load of this machine was {about['load']} before the first run; it should be near 0")
    found = probed(options.pools)
    rounds: dict[Key, list[list[dict[str, float]]]] = {key: [] for key in (*FITTED, *CHECKS)}
    for repeat in range(1, options.repeats + 1):
        for key, repeats in rounds.items():
            repeats.append(rounds_of(train(key, options.rounds)))
            name = scaling_report.name_of(key)
            say(f"{repeat}/{options.repeats} {name}: {speed(key, repeats[-1]):,.0f} steps/s")
    runs = [summary(key, repeats) for key, repeats in rounds.items()]
    return {"machine": about, "rounds": options.rounds, "repeats": options.repeats, "probes": found, "runs": runs}


def probed(pools: Sequence[int]) -> dict[str, Any]:
    """The parts of a round, measured alone."""
    say("parts of a round alone")
    sides = [probes.learner_side(number) for number in pools]
    num_metrics = int(sides[0]["num_metrics"])
    script = Path(probes.__file__)
    return {
        "actor_step": [probes.actor_step(number) for number in probes.NUM_ENVS],
        "learner_side": sides,
        "rows_of_learners": [probes.rows_of_learners(number, num_metrics) for number in probes.NUM_LEARNERS],
        "publishing": [probes.publishing(number) for number in probes.NUM_FLOATS],
        "collectives": last_json(run([*torchrun(2), str(script)], environ()))["collectives"],
        "network": probes.network_sizes(),
    }


def explained(measured: Mapping[str, Any], assumed: Assumed) -> dict[str, Any]:
    """What was measured, the costs that explain it, and what they predict."""
    found, num_cores = measured["probes"], measured["machine"]["cores"]
    network, messages = gloo(found), message_sizes(found)
    runs = [(setup_of(one["key"], num_cores), one["stages"]) for one in measured["runs"]]
    is_check = [tuple(one["key"]) in CHECKS for one in measured["runs"]]
    fitted = [one for one, check in zip(runs, is_check, strict=True) if not check]
    costs = cost_model.fitted(fitted, known_costs(found), network, messages)
    described = []
    for one, check, (setup, _) in zip(measured["runs"], is_check, runs, strict=True):
        stages = cost_model.predict(setup, costs, network, messages)
        steps = cost_model.steps_per_second(setup, stages)
        described.append({**one, "is_check": check, "predicted": stages, "predicted_steps_per_second": steps})
    return {
        **measured,
        "runs": described,
        "series": [{"name": name, "keys": keys, "times": times} for name, keys, times in SERIES],
        "costs": costs,
        "gloo": asdict(network),
        "messages": asdict(messages),
        "assumed": larger_machines.described(assumed),
        **larger_machines.predicted(costs, network, messages, assumed),
    }


def setup_of(key: Sequence[int], num_cores: int) -> Setup:
    """The setup of a run on this machine."""
    num_learners, num_actors, envs_per_actor, rollout_length, minibatch_size = key
    return Setup(
        num_learners=num_learners,
        num_actors=num_actors,
        envs_per_actor=envs_per_actor,
        rollout_length=rollout_length,
        minibatch_size=minibatch_size,
        num_cores=num_cores / num_learners,
    )


def known_costs(found: Mapping[str, Any]) -> Costs:
    """The costs that are measured alone, as slopes over the numbers of actors, learners and bytes."""
    sides = found["learner_side"]
    answers = [{"answer": one["num_actors"], "answer_pair": one["num_actors"] ** 2} for one in sides]
    return {
        **cost_model.fit(answers, [one["handshake"] for one in sides]),
        "merge_actor": slope(sides, "num_actors", "merge"),
        "merge_learner": slope(found["rows_of_learners"], "num_learners", "seconds"),
        "publish_byte": slope(found["publishing"], "num_bytes", "publish"),
        "checksum_byte": slope(found["publishing"], "num_bytes", "checksum"),
    }


def slope(rows: Sequence[Mapping[str, float]], over: str, name: str) -> float:
    """Seconds of one more of `over`."""
    counts = [{"fixed": 1.0, "slope": one[over]} for one in rows]
    return cost_model.fit(counts, [one[name] for one in rows])["slope"]


def gloo(found: Mapping[str, Any]) -> Network:
    """What joins learners on this machine: a sum of two takes two hops."""
    rows = [{"call": 1.0, "byte": one["num_bytes"]} for one in found["collectives"]]
    costs = cost_model.fit(rows, [one["all_reduce"] for one in found["collectives"]])
    return Network(costs["call"] / 2.0, costs["byte"], is_ring=True)


def message_sizes(found: Mapping[str, Any]) -> Messages:
    """Bytes that learners add up: float32 parameters, two moments and a step; a row of float64 (`message.Message`)."""
    sizes, num_metrics = found["network"], found["learner_side"][0]["num_metrics"]
    row = 1 + 4 + 7 + (1 + 2 * sizes["obs_size"]) + (1 + 2) + num_metrics + 1
    return Messages(4 * (3 * sizes["num_parameters"] + 1), 8 * row)


def draw(result: Mapping[str, Any], image: Path) -> None:
    """The plot, where matplotlib is there."""
    try:
        scaling_plot.plot(result, image)
    except ImportError as error:
        say(f"no plot: {error}")


if __name__ == "__main__":
    sys.exit(main())
