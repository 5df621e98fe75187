"""The learners that a run can choose from; one from outside the package is named as `module:attribute`.

What a row holds is said in `interface.LearnerKind`.
"""

from __future__ import annotations

from ddp_ppo.config.settings import ConfigError
from ddp_ppo.errors import FAULTS, describe_cause
from ddp_ppo.imports import import_here
from ddp_ppo.learners.disco import kind as disco
from ddp_ppo.learners.guarded import guarded
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
        kind = getattr(import_here(module), attribute)
    except FAULTS as error:
        raise ConfigError(f"learner: {name} cannot be imported: {describe_cause(error)}") from error
    if not isinstance(kind, LearnerKind):
        raise ConfigError(f"learner: {name} is a {type(kind).__name__}, not a ddp_ppo.learners.interface.LearnerKind")
    return guarded(kind, name)
