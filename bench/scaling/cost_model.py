"""What a round costs, stage by stage, from what runs where: fitted to measured runs, then asked about larger machines.

The seconds of a stage are costs times counts. Counts follow from the setup alone (`counts`); costs come from a fit to
runs (`fitted`), from parts measured alone, or are assumed. Waiting for the slowest of several is the mean of their
largest normal deviate (`expected_max`) times a relative spread. Pure functions; nothing is measured here.

Symbols: W learners, M actors of a learner, K environments of an actor, T steps of a rollout, N = M K T samples of a
learner's round, E epochs, n samples of a mini-batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

Seconds = dict[str, float]
Counts = dict[str, float]
Costs = dict[str, float]

STAGES = ("sample", "idle", "annotate", "transfer", "train", "sync", "all_reduce", "wait", "write")
_MAX_COUNT = 1 << 40


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What runs: the learners of all machines, and what each has.

    Attributes:
        num_cores: of one learner; its actors share them.
        device: what the learner trains on, "cpu" or "gpu".
    """

    num_learners: int
    num_actors: int
    envs_per_actor: int
    rollout_length: int
    minibatch_size: int
    num_cores: float
    num_epochs: int = 10
    device: str = "cpu"

    @property
    def num_samples(self) -> int:
        """N, samples of one learner's round."""
        return self.num_actors * self.envs_per_actor * self.rollout_length

    @property
    def trained_on(self) -> str:
        """Whose cost a gradient step has: one core, two (an idle actor trains the critic) or a GPU."""
        return "gpu" if self.device == "gpu" else "two_cores" if self.num_cores >= 2 else "one_core"


@dataclass(frozen=True)
class Network:
    """What joins the learners.

    Attributes:
        hop: seconds for a small message from one learner to the next.
        byte: seconds of one byte.
        is_ring: a sum passes every learner twice; otherwise it climbs and descends a tree.
    """

    hop: float
    byte: float
    is_ring: bool

    def all_reduce(self, num_learners: int, num_bytes: float) -> float:
        """Seconds to add up a vector over all learners; 2 (W - 1) / W of it passes each (Patarasuk and Yuan 2009)."""
        if num_learners == 1:
            return 0.0
        hops = num_learners - 1 if self.is_ring else math.ceil(math.log2(num_learners))
        return 2 * hops * self.hop + 2 * (num_learners - 1) / num_learners * num_bytes * self.byte


@dataclass(frozen=True)
class Messages:
    """Bytes that learners add up in a round: the averaged vector, and each learner's row of statistics and metrics."""

    vector: int
    row: int


def counts(setup: Setup) -> dict[str, Counts]:
    """Stage -> cost -> how often a learner pays it in a round."""
    on, samples = setup.trained_on, setup.num_samples
    steps = setup.rollout_length * max(1.0, setup.num_actors / setup.num_cores)
    gradient_steps = setup.num_epochs * math.ceil(samples / setup.minibatch_size)
    return {
        "sample": {
            "actor_step": steps,
            "env_step": steps * setup.envs_per_actor,
            "answer": setup.num_actors,
            "answer_pair": setup.num_actors**2,
        },
        "annotate": {"annotate": 1.0, "annotate_sample": steps * setup.envs_per_actor},
        "transfer": {f"transfer_{on}": 1.0, f"transfer_sample_{on}": samples},
        "train": {f"gradient_step_{on}": gradient_steps, f"gradient_sample_{on}": setup.num_epochs * samples},
        "sync": {"sync": 1.0, "merge_actor": setup.num_actors, "merge_learner": setup.num_learners},
        "write": {"write": 1.0},
    }


def predict(setup: Setup, costs: Costs, network: Network, messages: Messages) -> Seconds:
    """Seconds of each of STAGES; idle is the wait for the slowest actor, wait the one for the slowest learner."""
    stages = {stage: dot(paid, costs) for stage, paid in counts(setup).items()}
    stages["idle"] = costs["actor_spread"] * expected_max(setup.num_actors) * (stages["sample"] + stages["annotate"])
    size = messages.vector, messages.row * setup.num_learners
    stages["all_reduce"] = sum(network.all_reduce(setup.num_learners, num_bytes) for num_bytes in size)
    stages["wait"] = costs["learner_spread"] * expected_max(setup.num_learners) * local(stages)
    return {stage: stages[stage] for stage in STAGES}


def local(stages: Mapping[str, float]) -> float:
    """Seconds of a round until a learner meets the others."""
    return sum(stages[stage] for stage in ("sample", "idle", "annotate", "transfer", "train"))


def steps_per_second(setup: Setup, stages: Mapping[str, float]) -> float:
    """Environment steps of all learners."""
    return setup.num_learners * setup.num_samples / sum(stages.values())


def dot(paid: Mapping[str, float], costs: Mapping[str, float]) -> float:
    """Seconds of these counts."""
    return sum(number * costs[cost] for cost, number in paid.items())


def expected_max(number: int) -> float:
    """Mean of the largest of so many standard normal deviates (Blom 1958; within 5 % of the exact values)."""
    return NormalDist().inv_cdf((number - 0.375) / (number + 0.25)) if number > 1 else 0.0


def fit(rows: Sequence[Counts], seconds: Sequence[float], scale: Sequence[float] | None = None) -> Costs:
    """The costs that explain these seconds best, by least squares of errors relative to `scale`, or to the seconds.

    No cost is negative: the most negative one is set to 0 and the others are fitted again.
    """
    names = list(dict.fromkeys(cost for row in rows for cost in row))
    weights = 1.0 / np.asarray(seconds if scale is None else scale, float)
    table = np.array([[row.get(name, 0.0) for name in names] for row in rows]) * weights[:, None]
    kept, found = list(range(len(names))), np.zeros(len(names))
    while kept:
        solution = np.linalg.lstsq(table[:, kept], np.asarray(seconds) * weights, rcond=None)[0]
        if solution.min() >= 0.0:
            found[kept] = solution
            break
        kept.pop(int(solution.argmin()))
    return dict(zip(names, found.tolist(), strict=True))


def fitted(runs: Sequence[tuple[Setup, Seconds]], known: Costs, network: Network, messages: Messages) -> Costs:
    """All costs that explain these runs.

    Args:
        runs: setups and their measured stages; sample holds idle, and sync all that learners wait for.
        known: costs that were measured alone; they are taken off before the rest is fitted.
    """
    costs = dict(known)
    for stage in ("annotate", "transfer", "train", "write"):
        costs |= _fit_stage(stage, [(setup, one[stage]) for setup, one in runs], known)
    costs |= _fit_stage("sample", [(setup, one["sample"] - one["idle"]) for setup, one in runs], known)
    costs |= _fit_stage("sync", [(setup, one["sync"]) for setup, one in runs if setup.num_learners == 1], known)
    sampled = [(setup.num_actors, one["sample"] - one["idle"] + one["annotate"], one["idle"]) for setup, one in runs]
    costs |= _fit_spread("actor_spread", sampled)
    waits = []
    for setup, one in runs:
        alone = local(one | {"idle": 0.0})  # the measured sample holds it
        expected = predict(setup, costs | {"learner_spread": 0.0}, network, messages)
        waits.append((setup.num_learners, alone, one["sync"] - expected["sync"] - expected["all_reduce"]))
    return costs | _fit_spread("learner_spread", waits)


def _fit_stage(stage: str, runs: Sequence[tuple[Setup, float]], known: Costs) -> Costs:
    """The costs of one stage but for the known ones, from the setups and seconds of runs."""
    rows, rest = [], []
    for setup, seconds in runs:
        paid = counts(setup)[stage]
        rows.append({cost: number for cost, number in paid.items() if cost not in known})
        rest.append(seconds - dot({cost: number for cost, number in paid.items() if cost in known}, known))
    return fit(rows, rest, [seconds for _, seconds in runs])


def _fit_spread(name: str, waits: Sequence[tuple[int, float, float]]) -> Costs:
    """The relative spread of (how many wait for each other, seconds of their work, seconds waited)."""
    several = [(expected_max(number) * work, waited, work) for number, work, waited in waits if number > 1]
    rows, waited, work = zip(*several, strict=True)
    return fit([{name: row} for row in rows], waited, work)


@dataclass(frozen=True)
class Limit:
    """A cost that grows with something else than the sampling does.

    Attributes:
        name, grows_with: what it is.
        here: how many of `grows_with` this setup has.
        seconds: what it costs here, in a round.
        at: how many it takes as long as sampling with; None where no number is enough.
    """

    name: str
    grows_with: str
    here: int
    seconds: float
    at: int | None

    @property
    def headroom(self) -> float:
        """How many times more than here there may be."""
        return math.inf if self.at is None else self.at / self.here


def limits(setup: Setup, costs: Costs, network: Network, messages: Messages) -> list[Limit]:
    """Each growing cost of this setup, the one that breaks first at the head.

    That is the largest one above the sampling; where none is, the one with the least headroom.
    """

    def training(number: int) -> float:
        return predict(replace(setup, num_actors=number), costs, network, messages)["train"]

    def waiting(number: int) -> float:
        return predict(replace(setup, num_learners=number), costs, network, messages)["wait"]

    def answers(number: int) -> float:
        return number * costs["answer"] + number**2 * costs["answer_pair"]

    def rows(number: int) -> float:
        return network.all_reduce(number, messages.row * number) + number * costs["merge_learner"]

    def parameters(number: int) -> float:
        averaged, published = 12 * number, 4 * number  # Adam's two moments are averaged too
        passed = network.all_reduce(setup.num_learners, averaged) - network.all_reduce(setup.num_learners, 0)
        return passed + averaged * costs["checksum_byte"] + published * costs["publish_byte"]

    sampling = dot(counts(setup)["sample"], costs)
    actors, learners = ("actors of a learner", setup.num_actors), ("learners", setup.num_learners)
    size = ("parameters", messages.vector // 12)
    growing: list[tuple[str, tuple[str, int], Callable[[int], float]]] = [
        ("gradient steps", actors, training),
        ("commands and answers of actors", actors, answers),
        ("merging the statistics of actors", actors, lambda number: number * costs["merge_actor"]),
        ("waiting for the slowest actor", actors, lambda n: costs["actor_spread"] * expected_max(n) * sampling),
        ("averaging parameters", learners, lambda number: network.all_reduce(number, messages.vector)),
        ("exchanging statistics and metrics", learners, rows),
        ("bytes published, averaged and compared", size, parameters),
        ("waiting for the slowest learner", learners, waiting),
    ]
    found = [Limit(name, what, here, cost(here), first_count(cost, sampling)) for name, (what, here), cost in growing]
    return sorted(found, key=lambda limit: limit.headroom if limit.seconds < sampling else -limit.seconds)


def first_count(cost: Callable[[int], float], seconds: float) -> int | None:
    """The smallest count with which a cost that never falls reaches these seconds; None above 10^12."""
    high = 1
    while cost(high) < seconds:
        high *= 2
        if high > _MAX_COUNT:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if cost(middle) >= seconds else (middle, high)
    return high
