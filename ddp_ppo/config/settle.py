"""From settings that were read one by one to a Config: what does nothing, what must not be together, every mistake.

The class of the Config is an argument: it is declared in settings.py, which needs this module for its construction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from ddp_ppo.config.frozen import FrozenDict
from ddp_ppo.config.reading import Found, Reading
from ddp_ppo.config.rules import NO_EFFECTS, RULES, NoEffect, broken_rules, useless
from ddp_ppo.config.sections import OWN
from ddp_ppo.config.setting import ConfigError

C = TypeVar("C")
_NEAREST = ("command line", "code")  # places that win over every file


class Origin(str):
    """Where a setting's value comes from, and that value: `dataclasses.replace` may give the setting another one.

    Attributes:
        is_inherited: whether it stands in a file that another one inherits, or in one of the package.
    """

    value: Any = None
    is_inherited: bool = False

    @staticmethod
    def of(place: str, value: Any, *, is_inherited: bool = False) -> Origin:
        """The origin of a value."""
        origin = Origin(place)
        origin.value, origin.is_inherited = value, is_inherited
        return origin


def settled(reading: Reading, config_class: type[C], name: str) -> C:
    """The Config of what was read.

    A setting that does nothing with the others is an error where a person gave it, and has its default where it was
    inherited: nobody chose it here.

    Raises:
        ConfigError: with one line for every mistake of the reading and every broken rule.
    """
    errors = list(reading.errors)
    invalid = {key for key, item in reading.found.items() if not item.is_valid}
    found = {key: item for key, item in reading.found.items() if item.is_valid}
    config = _filled(config_class, found, reading, name)
    for row, text in useless(config, _rows(config, reading), invalid):
        item = found.get(row.name)
        if item is None or item.value == reading.settings[row.name].default:
            continue
        is_nearer = row.is_replaced and found[row.other].place in _NEAREST and item.place != found[row.other].place
        if item.is_inherited or is_nearer:
            del found[row.name]
        else:
            errors.append(f"{item.place}: {item.spelled}: {text}")
    config = _filled(config_class, found, reading, name)
    rules = RULES if "learner" in invalid else (*RULES, *reading.sections[config.learner].rules)
    for names, message in broken_rules(config, rules, invalid):
        place = next((origin for key in names if (origin := config.origins[key]) != "default"), "default")
        errors.append(f"{place}: {message}")
    if errors:
        raise ConfigError("\n".join(errors))
    return cast(C, config)


def _rows(config: Any, reading: Reading) -> list[NoEffect]:
    """Rows of settings that may do nothing: general ones, the chosen learner's, those of all other learners."""
    own = reading.sections[config.learner]
    rows = [*NO_EFFECTS, *own.no_effects(config.learner)]
    for section in reading.sections.values():
        if section.name != own.name:
            reason = f"it belongs to {section.title}"
            rows += [NoEffect(key, "learner", lambda _: True, reason) for key in section.declared]
    return rows


def _filled(config_class: type[C], found: Mapping[str, Found], reading: Reading, name: str) -> Any:
    """A Config of checked values, everything else at its default."""
    values = {key: found[key].value if key in found else one.default for key, one in reading.settings.items()}
    sections = dict[str, Any]()
    for section in dict.fromkeys((*OWN.values(), reading.sections[values["learner"]])):
        fields = {key.partition(".")[2]: values[key] for key in section.declared}
        sections[section.name] = section.settings(**fields)
    origins = {
        key: Origin.of(
            _origin(found.get(key), one.default),
            values[key],
            is_inherited=key in found and found[key].is_inherited,
        )
        for key, one in reading.settings.items()
    }
    config = object.__new__(config_class)
    vars(config).update({key: value for key, value in values.items() if "." not in key})
    vars(config).update({key: sections.pop(key) for key in OWN})
    vars(config).update(external=FrozenDict(sections), name=name, origins=FrozenDict(origins))
    return config


def _origin(item: Found | None, default: Any) -> str:
    return "default" if item is None or (item.place == "code" and item.value == default) else item.place
