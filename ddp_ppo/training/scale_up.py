"""A run with more or fewer environments: what is kept, what changes with it, and the settings to write.

Pure arithmetic on two configurations: more environments change the samples of a round, or the length of its rollouts,
and with them the gradient steps. One of the three stays as it was, and a person has to say which.

Symbols: T rollout_length, B environments, all learners together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from ddp_ppo.config.settings import Config, ConfigError
from ddp_ppo.text import entry

_INTERVALS = ("eval_interval", "checkpoint_interval")
_MUCH_BEYOND = 0.2  # of an advantage's weight beyond the end of its rollout
KEEP = ("transitions", "minibatch_size", "updates")


@dataclass(frozen=True)
class ScaleUp:
    """Two configurations side by side.

    Attributes:
        keep: what stays: "transitions" (T * B of a round: rollouts get shorter), "minibatch_size" (rollouts and
            mini-batches: a round has more gradient steps) or "updates" (rollouts and gradient steps of a round:
            mini-batches grow).
        settings: what has to be written to get from the one to the other.
        rows: name -> (before, after).
        notes: what else to think of.
    """

    keep: str
    settings: dict[str, int]
    rows: dict[str, tuple[int, int]]
    notes: tuple[str, ...]


def scale_up(config: Config, environments: str, keep: str, *, num_learners: int) -> tuple[Config, ScaleUp]:
    """The configuration with other environments, and both arithmetics.

    Args:
        environments: a factor such as "4x" or "0.5x", or the environments of the whole run such as "64".
        keep: one of `KEEP`.
        num_learners: that this run has.

    Raises:
        ConfigError: the numbers do not come out whole; the message names the nearest that do.
    """
    if config.learner != "ppo":
        raise ConfigError(f"--environments: the arithmetic is that of learner: ppo, not of learner: {config.learner}")
    factor = _factor(config, environments, num_learners)
    settings: dict[str, Any] = {"num_envs": _whole("num_envs", config.envs_per_learner, factor)}
    if keep == "transitions":
        settings["rollout_length"] = _whole("rollout_length", config.rollout_length, 1 / factor)
    if keep == "updates":
        settings["minibatch_size"] = _whole("minibatch_size", config.ppo.minibatch_size, factor)
    scaled = replace(config, **{**settings, "envs_per_actor": None})
    before, after = (arithmetic(one, num_learners) for one in (config, scaled))
    rows = {name: (before[name], after[name]) for name in before}
    return scaled, ScaleUp(keep, settings, rows, _notes(config, scaled, factor, rows))


def arithmetic(config: Config, num_learners: int) -> dict[str, int]:
    """Environments, samples, mini-batches and gradient steps of a configuration; `gradient steps` are a learner's."""
    rounds, batches = config.num_rounds(num_learners), config.ppo.minibatches_per_epoch(config.samples_per_round)
    transitions = config.transitions_per_round(num_learners)
    return {
        "environments": config.envs_per_learner * num_learners,
        "rollout_length": config.rollout_length,
        "transitions a round": transitions,
        "minibatch_size": min(config.ppo.minibatch_size, config.samples_per_round),
        "mini-batches an epoch": batches,
        "gradient steps per round": config.ppo.num_epochs * batches,
        "rounds": rounds,
        "transitions of the run": rounds * transitions,
        "gradient steps of the run": rounds * config.ppo.num_epochs * batches,
    }


def scale_up_text(result: ScaleUp) -> str:
    """The table, the settings and the notes, for a person."""
    lines = [f"{'':26} {'now':>14} {'then':>14}"]
    lines += [f"{name:26} {before:14,} {after:14,}" for name, (before, after) in result.rows.items()]
    words = " ".join(f"{name}={value}" for name, value in result.settings.items())
    lines.append(entry("write", f"{words}   ({result.keep} kept)"))
    return "\n".join([*lines, *(entry("note", note) for note in result.notes)])


def _factor(config: Config, environments: str, num_learners: int) -> Fraction:
    """How many times as many environments."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(x?)", environments.strip().lower())
    if match is None or float(match[1]) == 0:
        raise ConfigError(f"--environments: got {environments}; allowed: a factor such as 4x, or a number such as 64")
    number = Fraction(match[1])
    if match[2]:
        return number
    if number % num_learners:
        below = int(number // num_learners) * num_learners
        nearest = f"{below} or {below + num_learners}" if below else f"{num_learners}"
        raise ConfigError(
            f"--environments: {number} cannot be shared equally by {num_learners} learners; nearest: {nearest}"
        )
    return number / (num_learners * config.envs_per_learner)


def _whole(name: str, value: int, factor: Fraction) -> int:
    """A setting times a factor, which must come out whole."""
    if value % factor.denominator:
        below = value // factor.denominator * factor.denominator
        nearest = f"{below} or {below + factor.denominator}" if below else f"{factor.denominator}"
        raise ConfigError(f"{name}: {value} times {factor} is not whole; begin with {name}={nearest}")
    return int(value * factor)


def _shown(factor: Fraction) -> str:
    return f"{float(factor):.3g}x"


def _notes(config: Config, scaled: Config, factor: Fraction, rows: dict[str, tuple[int, int]]) -> tuple[str, ...]:
    notes = scaled.ppo.warnings(scaled.samples_per_round)
    before, after = (_share_beyond(one) for one in (config, scaled))
    if scaled.rollout_length < config.rollout_length and after > _MUCH_BEYOND:
        horizon = 1 / max(1 - scaled.gamma * scaled.gae_lambda, 1e-9)
        notes.append(
            f"advantages look about {horizon:.0f} steps ahead (1 / (1 - gamma * gae_lambda)) but rollouts then end "
            f"after {scaled.rollout_length}: {after:.0%} of their weight comes from the critic there, now {before:.0%}"
        )
    before, after = rows["gradient steps per round"]
    if after > before:
        notes.append(
            f"one round's data takes {_shown(Fraction(after, before))} the gradient steps: watch train/approx_kl, "
            "or set target_kl"
        )
    before, after = rows["gradient steps of the run"]
    if scaled.ppo.minibatch_size != config.ppo.minibatch_size and after != before:
        word = "raise" if after < before else "lower"
        notes.append(
            f"the run takes {_shown(Fraction(after, before))} the gradient steps: {word} total_env_steps, or "
            f"learning_rate (with Adam by the square root of the growth of the mini-batch: "
            f"{scaled.learning_rate * float(factor) ** 0.5:.2g})"
        )
    return (*notes, *_interval_notes(config, rows))


def _share_beyond(config: Config) -> float:
    """How much of an advantage's weight lies beyond the end of its rollout, on average over the rollout's T steps.

    With x = gamma * gae_lambda it is the mean of x ** (T - t): there the critic stands in for rewards.
    """
    x, steps = config.gamma * config.gae_lambda, config.rollout_length
    return 1.0 if x == 1.0 else x * (1.0 - x**steps) / (steps * (1.0 - x))


def _interval_notes(config: Config, rows: dict[str, tuple[int, int]]) -> Iterator[str]:
    """Intervals count rounds, which become longer with their samples; 0 is never."""
    before, after = rows["transitions a round"]
    now = {name: getattr(config, name) for name in _INTERVALS if getattr(config, name)}
    then = {name: max(1, round(value * before / after)) for name, value in now.items()}
    if then != now:
        words = " ".join(f"{name}={value}" for name, value in then.items() if value != now[name])
        rounds = "{1:,} in place of {0:,}".format(*rows["rounds"])
        yield f"intervals count rounds, of which there are {rounds}; as often in environment steps: {words}"
