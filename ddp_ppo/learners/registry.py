"""The learners that a run can choose from; a further one registers itself, or is named as `module:attribute`.

What a row holds is said in `interface.LearnerKind`.
"""

from __future__ import annotations

import importlib

from ddp_ppo.config.settings import ConfigError
from ddp_ppo.learners.disco import kind as disco
from ddp_ppo.learners.interface import LearnerKind
from ddp_ppo.learners.ppo import kind as ppo

LEARNERS: dict[str, LearnerKind] = {}  # by the value of the setting `learner`


def register_learner(kind: LearnerKind) -> None:
    """Makes a learner known by its name; one of the same name is replaced."""
    LEARNERS[kind.name] = kind


def learner_kind(name: str) -> LearnerKind:
    """The learner that the setting `learner` names: a registered one, or an attribute of a module, `module:attribute`.

    Raises:
        ConfigError: nothing is registered or can be imported under this name.
    """
    module, colon, attribute = name.partition(":")
    if not colon:
        if name in LEARNERS:
            return LEARNERS[name]
        raise ConfigError(f"learner: {name} is not one of {', '.join(LEARNERS)}, nor module:attribute")
    try:
        kind = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"learner: {name} cannot be imported: {error}") from error
    if not isinstance(kind, LearnerKind):
        raise ConfigError(f"learner: {name} is a {type(kind).__name__}, not a ddp_ppo.learners.interface.LearnerKind")
    return kind


for _kind in (ppo.KIND, disco.KIND):
    register_learner(_kind)
