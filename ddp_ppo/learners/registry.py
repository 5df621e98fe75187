"""The learners that a run can choose from; one from outside the package is named as `module:attribute`.

What a row holds is said in `interface.LearnerKind`.
"""

from __future__ import annotations

import importlib

from ddp_ppo.config.settings import ConfigError
from ddp_ppo.learners.disco import kind as disco
from ddp_ppo.learners.interface import LearnerKind
from ddp_ppo.learners.ppo import kind as ppo

# By the value of the setting `learner`.
LEARNERS: dict[str, LearnerKind] = {kind.name: kind for kind in (ppo.KIND, disco.KIND)}


def learner_kind(name: str) -> LearnerKind:
    """The learner that the setting `learner` names: one of the package, or `module:attribute`.

    Raises:
        ConfigError: there is none of this name, or it cannot be imported.
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
