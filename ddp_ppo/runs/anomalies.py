"""What a person should look at: each rule of `anomaly_rules` over a run, an event when it begins to hold. Torch-free.

The earliest event of a run is the one to start from. A rule that goes on and off again speaks less and less often.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ddp_ppo.runs.anomaly_rules import RULES, Rule
from ddp_ppo.runs.metric_history import History, Row

_SILENT_LOOKS = 10  # after the first event of a rule, twice as many after each further one


class Anomaly(NamedTuple):
    """One event: the rule's name, what was seen, and what to look at first."""

    rule: str
    seen: str
    advice: str


class _Watched:
    """One rule over one run. Rounds that do not report what it needs change nothing."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._held = self._missed = 0  # looks in a row
        self._is_on = False
        self._silent, self._next_silent = 0, _SILENT_LOOKS

    def update(self, row: Row, history: History) -> Anomaly | None:
        rule = self._rule
        if any(math.isnan(row[name]) for name in rule.needs):
            return None
        seen = rule.test(row, history)
        self._held, self._missed = (self._held + 1, 0) if seen else (0, self._missed + 1)
        self._silent = max(0, self._silent - 1)
        if self._is_on:
            self._is_on = self._missed < rule.num_looks
            return None
        if seen is None or self._held < rule.num_looks or self._silent:
            return None
        self._is_on = True
        self._silent, self._next_silent = self._next_silent, 2 * self._next_silent
        return Anomaly(rule.name, seen, rule.advice)


class Watch:
    """All rules over one run."""

    def __init__(self, *, time_limit: int | None = None, standard: float | None = None) -> None:
        """Begins with no rounds; for the arguments see `History`."""
        self._history = History(time_limit=time_limit, standard=standard)
        self._rules = [_Watched(rule) for rule in RULES]

    def update(self, row: Row) -> list[Anomaly]:
        """The events that begin with this round; metrics that it lacks are not looked at."""
        row = self._history.look(row)
        events = [event for rule in self._rules if (event := rule.update(row, self._history)) is not None]
        self._history.add(row)
        return events


def overlap_at_reset(seen: str) -> Anomaly:
    """The event for bodies that penetrate each other in an environment's first state."""
    return Anomaly("overlap_at_reset", seen, "start positions, sizes of the bodies, the model file")


def outside_space(seen: str) -> Anomaly:
    """The event for an observation far outside its space, which is used as it is."""
    return Anomaly("outside_space", f"{seen}; it is used as it is", "the limits of observation_space, units, divisions")
