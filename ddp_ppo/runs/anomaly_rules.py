"""The rules for what a person should look at: one function and one row of `RULES` for each. Torch-free.

A function says what it has seen in a round, or None where nothing is wrong; it is asked only in rounds that report the
metrics it needs. The thresholds leave the healthy runs of every packaged configuration alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ddp_ppo.maths.distributions import LOG_STD_MIN
from ddp_ppo.runs.metric_history import (
    EPISODE_STEPS,
    TRAINED,
    WORKING_SPEED,
    History,
    Row,
)
from ddp_ppo.runs.metric_table import (
    ACTION_STD,
    CLIP_FRACTION,
    EPISODE_LENGTH,
    EPISODES,
    EXPLAINED_VARIANCE,
    GRADIENT_STEPS,
    KL,
    REWARD_TERMS,
    SCORE,
    SCORE_STD,
    TERMINATED_FRACTION,
    TRAINING_RETURN,
    VALUE_LOSS,
    seconds_of,
)

_SHORT = 0.025  # of the time limit
_MANY_STEPS = 20_000  # in which something should have been met
_LIVING = ("survive", "alive", "healthy")  # in the names of terms that are paid for living: constant by design
_WORK = ("sample", "annotate", "transfer", "train", "sync")  # stages whose times make the working speed


class Rule(NamedTuple):
    """One rule.

    Attributes:
        name: of its event.
        test: says what was seen, given a round and those before it.
        advice: what to look at first.
        needs: the metrics without which a round is not a look.
        num_looks: how many in a row it has to hold for an event, and to fail for before it may speak again.
    """

    name: str
    test: Callable[[Row, History], str | None]
    advice: str
    needs: tuple[str, ...]
    num_looks: int = 1


def _kl_jump(row: Row, history: History) -> str | None:
    kl, usual = row[KL], history.usual(KL)
    if kl > 1.0 and math.isnan(usual):
        return f"KL {kl:.3g} in one of the first rounds"
    return f"KL {kl:.3g}, usually {usual:.4f}" if kl > 0.3 and kl > 5.0 * usual else None


def _value_loss_jump(row: Row, history: History) -> str | None:
    """Larger than ever. Where failures have become rare, one of them costs a thousand times the usual loss."""
    loss, usual = row[VALUE_LOSS], history.usual(VALUE_LOSS)
    highest = history.extremes(VALUE_LOSS)[1]
    is_jump = loss > 0.1 and loss > 20.0 * usual and loss > 5.0 * highest
    return f"value loss {loss:.3g}, usually {usual:.3g}, at most {highest:.3g}" if is_jump else None


def _high_value_loss(row: Row, history: History) -> str | None:
    loss, usual = row[VALUE_LOSS], history.usual(VALUE_LOSS)
    return f"value loss {loss:.3g}, usually {usual:.3g}" if loss > 0.1 and loss > 20.0 * usual else None


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
    std, floor = row[ACTION_STD], math.exp(LOG_STD_MIN)
    return f"action std {std:.4f}, its floor is {floor:.4f}" if std < 1.2 * floor else None


def _short_episodes(row: Row, history: History) -> str | None:
    length, ended = row[EPISODE_LENGTH], row[TERMINATED_FRACTION]
    is_settled = not math.isnan(history.usual(EPISODE_LENGTH))
    return f"episodes last {length:.1f} steps, {ended:.0%} terminated" if is_settled and length < 5.0 else None


def _lasting_shortness(row: Row, history: History) -> str | None:
    """Episodes that were short from the beginning and have not become longer; those of a solved task have shortened."""
    first, last = history.ends(EPISODE_LENGTH)
    if history.time_limit is None or history.total(EPISODE_STEPS) < _MANY_STEPS / 2:
        return None
    if not max(first, last) < _SHORT * history.time_limit or last > 1.2 * first:
        return None
    return f"episodes last {last:.1f} of {history.time_limit:,} steps, at first {first:.1f}"


def _slow(row: Row, history: History) -> str | None:
    if row[GRADIENT_STEPS] > history.usual(GRADIENT_STEPS):
        return None  # it trains more than it used to
    speed, usual = row[WORKING_SPEED], history.usual(WORKING_SPEED)
    if not speed < 0.4 * usual:
        return None
    seconds = {stage: (history.usual(seconds_of(stage)), row[seconds_of(stage)]) for stage in _WORK}
    known = {stage: pair for stage, pair in seconds.items() if not math.isnan(sum(pair))}
    stage = max(known, key=lambda one: known[one][1] - known[one][0], default=None)
    where = f", {stage} {known[stage][0]:.3g} -> {known[stage][1]:.3g} s" if stage else ""
    return f"{speed:,.0f} steps/s without evaluations, usually {usual:,.0f}{where}"


def _idle_actors(row: Row, history: History) -> str | None:
    idle, sampling = row[seconds_of("idle")], row[seconds_of("sample")] + row[seconds_of("annotate")]
    return f"actors wait {idle / sampling:.0%} of the sampling time for the slowest" if idle > 0.4 * sampling else None


def _replay_gap(row: Row, history: History) -> str | None:
    trained, evaluated, std = row[TRAINED], row[SCORE], row[SCORE_STD]
    gap = trained - evaluated
    is_far = gap > 0.5 * abs(trained) and not gap <= std
    return f"training return {trained:.1f}, evaluation {evaluated:.1f}" if is_far else None


def _parting(row: Row, history: History) -> str | None:
    """The training return has risen over the last three evaluations, which have not.

    Evaluations that stay flat above the training return are a solved task whose noise fades.
    """
    trained = [*history.last(TRAINED, 2), row[TRAINED]]
    scores = [*history.last(SCORE, 2), row[SCORE]]
    if len(trained) < 3 or len(scores) < 3 or not trained[2] > trained[0] + 0.2 * abs(trained[0]):
        return None
    size = abs(scores[0])
    is_falling = scores[2] < scores[1] < scores[0] and scores[2] < scores[0] - 0.08 * size
    is_flat = max(scores) - min(scores) <= 0.05 * size and scores[2] < trained[2]
    is_solved = history.standard is not None and scores[2] >= history.standard
    if is_solved or not (is_falling or is_flat):
        return None
    return f"training {trained[0]:.4g} -> {trained[2]:.4g}, evaluation {scores[0]:.4g} -> {scores[2]:.4g}"


def _terms(row: Row) -> Iterator[str]:
    return (name for name in row if name.startswith(REWARD_TERMS) and name.count("/") == 1)


def _term_without_progress(row: Row, history: History) -> str | None:
    return _fallen_term(row, history) or _flat_term(row, history)


def _fallen_term(row: Row, history: History) -> str | None:
    """The return has risen, but something that it pays for has halved: the task's own measure may be among it.

    Costs, which are negative, grow in healthy learning too.
    """
    returns = history.halves(TRAINING_RETURN)
    if not returns[1] > returns[0] + 0.2 * abs(returns[0]):
        return None
    found = {name: history.halves(name) for name in _terms(row)}
    total = sum(abs(before) for before, _ in found.values() if not math.isnan(before))
    for name, (before, after) in found.items():
        if before > 0.1 * total and after < 0.5 * before:
            return f"{name} {before:.3g} -> {after:.3g}, training return {returns[0]:.1f} -> {returns[1]:.1f}"
    return None


def _flat_term(row: Row, history: History) -> str | None:
    """The return has doubled since the start, but an episode brings no more of a term that made up much of it."""
    returns, lengths = history.ends(TRAINING_RETURN), history.ends(EPISODE_LENGTH)
    if not returns[1] > returns[0] + abs(returns[0]):
        return None
    growth = 1.0 if math.isnan(sum(lengths)) else lengths[1] / lengths[0]
    found = {name: history.ends(name) for name in _terms(row)}
    total = sum(abs(before) for before, _ in found.values() if not math.isnan(before))
    for name, (before, after) in found.items():
        is_much = before > 0.25 * total and not any(word in name for word in _LIVING)
        if is_much and growth * after <= 1.05 * before:
            return f"{name} {before:.3g} -> {after:.3g}, training return {returns[0]:.1f} -> {returns[1]:.1f}"
    return None


def _nothing_met(row: Row, history: History) -> str | None:
    """Every episode has brought the same: 0, or a constant return up to the time limit."""
    value, (low, high) = row[TRAINING_RETURN], history.extremes(TRAINING_RETURN)
    episodes, steps = history.total(EPISODES), history.total(EPISODE_STEPS)
    if steps < _MANY_STEPS or not low == high == value:
        return None
    is_cost = value < 0 and episodes >= 100 and _has_no_end(row, history)
    return f"each of {episodes:,.0f} episodes has brought {value:g}" if is_cost or value == 0 else None


def _standstill(row: Row, history: History) -> str | None:
    """The policy has given up: costs fade to nothing, no episode has ended early, no return was ever above 0."""
    value, start = row[TRAINING_RETURN], history.start(TRAINING_RETURN)
    best, part = history.extremes(TRAINING_RETURN)[1], 0.05 if (history.standard or 0.0) > 0.0 else 0.005
    if history.total(EPISODES) < 50 or not (max(best, value) <= 0.0 and start < 0.0) or value < part * start:
        return None
    if not _has_no_end(row, history):
        return None
    return f"training return {start:.3g} -> {value:.2g}, never above 0, and no episode ends before its time limit"


def _has_no_end(row: Row, history: History) -> bool:
    """Whether every episode of the run has met the time limit."""
    return max(history.extremes(TERMINATED_FRACTION)[1], row[TERMINATED_FRACTION]) == 0.0


_EXPLORE = "whether exploration can meet a reward at all: init_log_std, entropy_coef, a shaped reward, easier starts"

# fmt: off
RULES = (
    Rule("kl_jump", _kl_jump, "learning rate, number of epochs, scale of the rewards", (KL,)),
    Rule("value_loss_jump", _value_loss_jump, "scale of the rewards, normaliser, what a resume restored",
         (VALUE_LOSS,)),
    Rule("high_value_loss", _high_value_loss, "scale of the rewards, normaliser, what a resume restored",
         (VALUE_LOSS,), 10),
    Rule("poor_critic", _poor_critic, "value_coef, learning rate, gamma against the length of episodes",
         (EXPLAINED_VARIANCE, VALUE_LOSS), 20),
    Rule("clip_fraction", _clipping, "learning rate, number of epochs, mini-batch size", (CLIP_FRACTION,), 5),
    Rule("narrow_policy", _narrow_policy, "init_log_std, entropy_coef, whether the task is solved", (ACTION_STD,), 5),
    Rule("short_episodes", _short_episodes, "why episodes end, overlap at reset, order of joints, limits",
         (EPISODE_LENGTH,), 20),
    Rule("lasting_shortness", _lasting_shortness, "why episodes end, start states, order of joints, limits",
         (EPISODE_LENGTH,), 40),
    Rule("throughput_drop", _slow, "other programs on this machine, time/* and resource/* columns", (WORKING_SPEED,),
         5),
    Rule("idle_actors", _idle_actors, "environments of unequal speed, other programs on this machine",
         (seconds_of("idle"), seconds_of("sample"), seconds_of("annotate")), 30),
    Rule("replay_gap", _replay_gap, "noise that the return depends on, normaliser, start states", (SCORE, TRAINED), 2),
    Rule("reward_without_progress", _parting, "terms of the reward, conditions of the evaluation", (SCORE, TRAINED)),
    Rule("fallen_term", _term_without_progress, "weights of the reward's terms, what the policy is really paid for",
         (TRAINING_RETURN,), 10),
    Rule("nothing_met", _nothing_met, _EXPLORE, (TRAINING_RETURN,)),
    Rule("standstill", _standstill, _EXPLORE, (TRAINING_RETURN,), 2),
)
# fmt: on
