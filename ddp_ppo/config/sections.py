"""Which section of settings belongs to which learner: those of the package, and any other that is named as module:kind.

A learner's settings are a frozen data class whose fields are declared with `setting.setting`. It may have these
attributes too: `title` (its name in messages), `rules` and `no_effects` (rows as in rules.py), and `unread` (general
settings that do nothing with this learner).
"""

from __future__ import annotations

import dataclasses
import keyword
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from ddp_ppo.config.disco import DiscoSettings
from ddp_ppo.config.ppo import PPOSettings
from ddp_ppo.config.rules import NoEffect, Rule
from ddp_ppo.config.setting import Setting, settings_of
from ddp_ppo.config.yaml_text import RefusedError
from ddp_ppo.imports import import_here


class Section(NamedTuple):
    """A learner's part of a configuration: its name there, and the data class of its settings."""

    name: str
    settings: type

    @property
    def title(self) -> str:
        """What messages call the learner."""
        return str(getattr(self.settings, "title", self.name))

    @property
    def declared(self) -> Mapping[str, Setting]:
        """Its settings by their names, such as ppo.clip_range."""
        return settings_of(self.settings, self.name)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """What its settings must not be together."""
        return tuple(getattr(self.settings, "rules", ()))

    def no_effects(self, learner: str) -> list[NoEffect]:
        """Settings that do nothing with this learner, which the setting `learner` calls so."""
        reason = f"{self.title} does not read it"
        unread = (NoEffect(name, "learner", lambda one: one == learner, reason) for name in self.unread)
        return [*getattr(self.settings, "no_effects", ()), *unread]

    @property
    def unread(self) -> tuple[str, ...]:
        """General settings that do nothing with this learner."""
        return tuple(getattr(self.settings, "unread", ()))


# Of the package, by the learner's name. Each has a field of its name in `Config` too, which type checkers read.
OWN = {"ppo": Section("ppo", PPOSettings), "disco": Section("disco", DiscoSettings)}
PATTERN = rf"{'|'.join(OWN)}|[A-Za-z_][\w.]*:[A-Za-z_]\w*"  # of the setting `learner`
EXPECTED = f"{', '.join(OWN)} or module:attribute"
# Names from before there were sections, which are read in their place.
FLAT_NAMES = {name.removeprefix("ppo."): name for name in OWN["ppo"].declared}
FLAT_NAMES |= {name.replace(".", "_"): name for name in OWN["disco"].declared}


def canonical(name: str) -> str:
    """The name of a setting by any of its names: "ppo.clip_range" for "clip_range"."""
    return FLAT_NAMES.get(name, name)


def sections_of(learners: Iterable[Any], taken: Collection[str] = ()) -> tuple[dict[str, Section], dict[str, str]]:
    """Learner -> section of the package's learners and of these, and learner -> what is wrong with it.

    Args:
        learners: values of the setting `learner`; what is not a module:attribute is passed over.
        taken: names that a section must not have.
    """
    found, wrong = dict(OWN), dict[str, str]()
    for learner in (one for one in learners if isinstance(one, str) and ":" in one):
        try:
            found[learner] = _imported(learner, taken)
        except RefusedError as error:
            wrong[learner] = str(error)
    return found, wrong


def _imported(learner: str, taken: Collection[str]) -> Section:
    """The section of a learner's kind in a module."""
    module, _, attribute = learner.rpartition(":")
    try:
        kind = getattr(import_here(module), attribute)
        section = Section(kind.name, kind.settings)
    except (Exception, SystemExit) as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())
        raise RefusedError(f"it cannot be imported, or has no name and settings: {text}") from error
    _require_section(section, taken)
    return section


def _require_section(section: Section, taken: Collection[str]) -> None:
    name = section.name
    if not (isinstance(name, str) and name.isidentifier()) or keyword.iskeyword(name) or name in OWN:
        raise RefusedError(f"its name {name!r} must be an identifier other than {' and '.join(OWN)}")
    if name in taken or name in FLAT_NAMES:
        raise RefusedError(f"its name {name!r} means something else in a configuration; choose another")
    settings = section.settings
    if not (isinstance(settings, type) and dataclasses.is_dataclass(settings)):
        raise RefusedError(f"its settings {settings!r} must be a frozen data class")
    if not settings.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        raise RefusedError(f"its settings, {settings.__name__}, must be a frozen data class")
    try:
        declared = section.declared
    except (TypeError, NameError) as error:
        raise RefusedError(f"its settings, {settings.__name__}: {error}") from error
    for item in dataclasses.fields(settings):
        if f"{section.name}.{item.name}" not in declared:
            raise RefusedError(f"its settings, {settings.__name__}: {item.name} is not declared with setting(...)")
