"""A learner from outside the package, whose mistakes become one line that names it before anything is started.

What fails while it trains keeps its traceback: whoever wrote the learner needs it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

from ddp_ppo.config.settings import ConfigError
from ddp_ppo.errors import FAULTS, EnvError, describe_cause
from ddp_ppo.learners.interface import Learner, LearnerJob, LearnerKind, Workplace
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.sampling.rollout import Field

_CHECKED = ("require", "network", "rollout_fields", "num_parameters")  # called before anything is started
_FIELDS = {"obs", "act", "reward", "terminated", "truncated", "final_obs"}  # that every actor writes
_MEMBERS = [name for name in vars(Learner) if not name.startswith("_")]


def guarded(kind: LearnerKind, name: str) -> LearnerKind:
    """The same kind of learner; its parts raise ConfigErrors that name it as the setting `learner` does.

    Raises:
        ConfigError: actors cannot import its `annotate`.
    """
    try:
        pickle.dumps(kind.annotate)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        words = "annotate must be a function of a module, as actors import it from there"
        raise ConfigError(f"learner: {name}: {words}: {describe_cause(error)}") from error

    def make(job: LearnerJob, workplace: Workplace) -> Learner:
        learner = kind.make(job, workplace)
        if missing := [member for member in _MEMBERS if not hasattr(learner, member)]:
            raise ConfigError(f"learner: {name}: make returned {learner!r}, which lacks {', '.join(missing)}")
        return learner

    def rollout_fields(network: NetworkSpec) -> tuple[Field, ...]:
        fields = kind.rollout_fields(network)
        if missing := sorted(_FIELDS - {field.name for field in fields}):
            raise ConfigError(f"learner: {name}: rollout_fields lacks {', '.join(missing)}, which actors write")
        return fields

    own = replace(kind, make=make, rollout_fields=rollout_fields)
    checked: dict[str, Any] = {part: _blamed(f"learner: {name}: {part}", getattr(own, part)) for part in _CHECKED}
    return replace(own, **checked)


def _blamed(place: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except (ConfigError, EnvError):
            raise
        except FAULTS as error:
            raise ConfigError(f"{place}: {describe_cause(error)}") from error

    return call
