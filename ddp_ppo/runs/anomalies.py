"""What a person should look at: rules over the rounds' metrics, each an event when it begins to hold. Torch-free.

A rule has to hold for several rounds in a row before it speaks, and to fail for as many before it may speak again. The
earliest event of a run is the one to start from.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ddp_ppo.maths.distributions import LOG_STD_MIN
from ddp_ppo.runs.metric_table import (
    ACTION_STD,
    CLIP_FRACTION,
    EPISODE_LENGTH,
    EXPLAINED_VARIANCE,
    GRADIENT_STEPS,
    KL,
    REWARD_TERMS,
    SCORE,
    STEPS_PER_SECOND,
    TERMINATED_FRACTION,
    TRAINING_RETURN,
    VALUE_LOSS,
    seconds_of,
)

_WINDOW = 50  # rounds (or evaluations) that "usual" is the median of
_MIN_HISTORY = 20

Row = Mapping[str, float]


class Anomaly(NamedTuple):
    """One event: the rule's name, what was seen, and what to look at first."""

    rule: str
    seen: str
    advice: str


class History:
    """The last values of every metric that had something to report, the current round not among them."""

    def __init__(self) -> None:
        self._values: dict[str, deque[float]] = {}

    def add(self, row: Row) -> None:
        """Takes a finished round in."""
        for name, value in row.items():
            if not math.isnan(value):
                self._values.setdefault(name, deque(maxlen=_WINDOW)).append(value)

    def usual(self, name: str) -> float:
        """The median of the last rounds; NaN before there are enough of them."""
        values = self._values.get(name, ())
        return statistics.median(values) if len(values) >= _MIN_HISTORY else math.nan

    def last(self, name: str, count: int) -> list[float]:
        """The last `count` values, oldest first; fewer where there are fewer."""
        return list(self._values.get(name, ()))[-count:]


Test = Callable[[Row, History], str | None]  # what was seen, None where the rule does not hold


@dataclass
class _Rule:
    name: str
    test: Test
    advice: str
    num_rounds: int = 1  # in a row, to begin and to end
    _held: int = field(default=0, init=False)
    _missed: int = field(default=0, init=False)
    _is_on: bool = field(default=False, init=False)

    def update(self, row: Row, history: History) -> Anomaly | None:
        seen = self.test(row, history)
        self._held, self._missed = (self._held + 1, 0) if seen else (0, self._missed + 1)
        if self._is_on:
            self._is_on = self._missed < self.num_rounds
            return None
        if seen is None or self._held < self.num_rounds:
            return None
        self._is_on = True
        return Anomaly(self.name, seen, self.advice)


class Watch:
    """All rules over one run."""

    def __init__(self) -> None:
        self._history = History()
        self._rules = _rules()

    def update(self, row: Row) -> list[Anomaly]:
        """The events that begin with this round; a metric that this learner does not have is one without news."""
        row = defaultdict(lambda: math.nan, row)
        events = [event for rule in self._rules if (event := rule.update(row, self._history)) is not None]
        self._history.add(row)
        return events


def _kl_jump(row: Row, history: History) -> str | None:
    kl, usual = row[KL], history.usual(KL)
    return f"KL {kl:.3f}, usually {usual:.4f}" if kl > 0.1 and kl > 5.0 * usual else None


def _value_loss_jump(row: Row, history: History) -> str | None:
    loss, usual = row[VALUE_LOSS], history.usual(VALUE_LOSS)
    return f"value loss {loss:.3g}, usually {usual:.3g}" if loss > 20.0 * usual and loss > 0.1 else None


def _poor_critic(row: Row, history: History) -> str | None:
    explained = row[EXPLAINED_VARIANCE]
    is_settled = not math.isnan(history.usual(EXPLAINED_VARIANCE))
    # A long horizon makes -0.5 for some 20 rounds a part of healthy learning (Hopper, gamma 0.999). Where every return
    # is the same, as of a pendulum that always stands, there is nothing to explain; usually their variance is about 1.
    is_much = row[VALUE_LOSS] > 0.01
    return f"explained variance {explained:.2f}" if is_settled and is_much and explained < -1.0 else None


def _clipping(row: Row, history: History) -> str | None:
    fraction = row[CLIP_FRACTION]
    return f"{fraction:.0%} of the samples left the clip range" if fraction > 0.6 else None


def _narrow_policy(row: Row, history: History) -> str | None:
    std = row[ACTION_STD]
    return (
        f"action std {std:.4f}, its floor is {math.exp(LOG_STD_MIN):.4f}" if std < 1.2 * math.exp(LOG_STD_MIN) else None
    )


def _short_episodes(row: Row, history: History) -> str | None:
    length = row[EPISODE_LENGTH]
    ended = row[TERMINATED_FRACTION]
    is_settled = not math.isnan(history.usual(EPISODE_LENGTH))
    return f"episodes last {length:.1f} steps, {ended:.0%} terminated" if is_settled and length < 5.0 else None


def _slow(row: Row, history: History) -> str | None:
    if not math.isnan(row[SCORE]):
        return None
    if row[GRADIENT_STEPS] > history.usual(GRADIENT_STEPS):
        return None  # it trains more than it used to
    speed, usual = row[STEPS_PER_SECOND], history.usual(STEPS_PER_SECOND)
    return f"{speed:,.0f} steps/s, usually {usual:,.0f}" if speed < 0.4 * usual else None


def _idle_actors(row: Row, history: History) -> str | None:
    idle, sampling = row[seconds_of("idle")], row[seconds_of("sample")] + row[seconds_of("annotate")]
    return f"actors wait {idle / sampling:.0%} of the sampling time for the slowest" if idle > 0.4 * sampling else None


def _replay_gap(row: Row, history: History) -> str | None:
    if math.isnan(row[SCORE]):
        return None
    trained, evaluated = history.last(TRAINING_RETURN, 5), row[SCORE]
    if not trained:
        return None
    mean = statistics.mean(trained)
    is_far = evaluated < mean - 0.5 * abs(mean)
    return f"training return {mean:.1f}, evaluation {evaluated:.1f}" if is_far else None


def _parting(row: Row, history: History) -> str | None:
    """The training return has risen over the last evaluations while the evaluation has fallen."""
    evaluations = [*history.last(SCORE, 2), row[SCORE]]
    trained = _halves(history.last(TRAINING_RETURN, _WINDOW))
    if math.isnan(row[SCORE]) or len(evaluations) < 3 or trained is None:
        return None
    before, after = trained
    has_risen = after > before + 0.2 * abs(before)
    has_fallen = evaluations[2] < evaluations[1] < evaluations[0] - 0.2 * abs(evaluations[0])
    return (
        f"training {before:.1f} -> {after:.1f}, evaluation {evaluations[0]:.1f} -> {evaluations[2]:.1f}"
        if (has_risen and has_fallen)
        else None
    )


def _fallen_term(row: Row, history: History) -> str | None:
    """The return has risen, but something that it pays for has halved: the task's own measure may be among it.

    Costs, which are negative, grow in healthy learning too.
    """
    returns = _halves(history.last(TRAINING_RETURN, _WINDOW))
    terms = {name: _halves(history.last(name, _WINDOW)) for name in row if name.startswith(REWARD_TERMS)}
    if returns is None or not returns[1] > returns[0] + 0.2 * abs(returns[0]):
        return None
    found = {name: halves for name, halves in terms.items() if halves is not None}
    total = sum(abs(before) for before, _ in found.values())
    for name, (before, after) in found.items():
        if before > 0.1 * total and after < 0.5 * before:
            return f"{name} {before:.3g} -> {after:.3g}, training return {returns[0]:.1f} -> {returns[1]:.1f}"
    return None


def _halves(values: list[float]) -> tuple[float, float] | None:
    """Means of the older and of the newer half; None where there are too few values."""
    half = len(values) // 2
    if len(values) < _MIN_HISTORY:
        return None
    return statistics.mean(values[:half]), statistics.mean(values[half:])


def overlap_at_reset(seen: str) -> Anomaly:
    """The event for bodies that penetrate each other in an environment's first state."""
    return Anomaly("overlap_at_reset", seen, "start positions, sizes of the bodies, the model file")


def outside_space(seen: str) -> Anomaly:
    """The event for an observation far outside its space, which is used as it is."""
    return Anomaly("outside_space", f"{seen}; it is used as it is", "the limits of observation_space, units, divisions")


def _rules() -> list[_Rule]:
    return [
        _Rule("kl_jump", _kl_jump, "learning rate, number of epochs, scale of the rewards"),
        _Rule("value_loss_jump", _value_loss_jump, "scale of the rewards, normaliser, what a resume restored"),
        _Rule("poor_critic", _poor_critic, "value_coef, learning rate, gamma against the length of episodes", 20),
        _Rule("clip_fraction", _clipping, "learning rate, number of epochs, mini-batch size", 5),
        _Rule("narrow_policy", _narrow_policy, "init_log_std, entropy_coef, whether the task is solved", 5),
        _Rule("short_episodes", _short_episodes, "why episodes end, overlap at reset, order of joints, limits", 20),
        _Rule("throughput_drop", _slow, "other programs on this machine, time/* columns, memory", 5),
        _Rule("idle_actors", _idle_actors, "environments of unequal speed, other programs on this machine", 30),
        _Rule("replay_gap", _replay_gap, "noise that the return depends on, normaliser, start states", 2),
        _Rule("reward_without_progress", _parting, "terms of the reward, conditions of the evaluation", 1),
        _Rule("fallen_term", _fallen_term, "weights of the reward's terms, what the policy is really paid for", 20),
    ]
