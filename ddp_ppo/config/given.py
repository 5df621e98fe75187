"""What a program gives a `Config`: general settings, sections as objects or as mappings, and names of earlier releases.

`dataclasses.replace` gives all fields of the Config before, and where each value came from: what has not changed since
is not given again, and a section of which a mapping changes some settings keeps the others.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from ddp_ppo.config.reading import Reading
from ddp_ppo.config.sections import Section, canonical, sections_of
from ddp_ppo.config.setting import Setting
from ddp_ppo.config.settle import Origin

_CODE = Origin("code")


def read_given(
    general: Mapping[str, Setting], given: Mapping[str, Any], origins: Mapping[str, Any], *, taken: Collection[str]
) -> Reading:
    """What was given, each value checked by itself; a name without its section counts more than the section.

    Args:
        general: the settings outside of sections.
        origins: where the values of the Config before came from, and those values; empty without one.
        taken: names that no section may have.
    """
    sections, wrong = sections_of([given.get("learner")], taken)
    known = {section.name for section in sections.values()}
    external = given.get("external", {})
    for key, one in external.items():  # `replace` may have chosen another learner than theirs
        if key not in known and dataclasses.is_dataclass(one):
            sections[f":{key}"] = Section(key, type(one))
    reading = Reading(general, sections, wrong)
    if not all(isinstance(origin, Origin) for origin in origins.values()):
        reading.errors.append("code: origins: not a setting; a Config notes by itself where its values come from")
    first: dict[str, tuple[str, Any]] = {}
    for key, value, is_chosen in _flattened(_without_numpy(given), reading, origins):
        name = canonical(key)
        place = _place(origins.get(name), value)
        if place is _CODE and is_chosen:
            before, other = first.setdefault(name, (key, value))
            if not _is_same(other, value):
                reading.errors.append(f"code: {key}: given twice, as {before}: {other!r} and as {key}: {value!r}")
        reading.take(key, partial(_as_given, value), given=repr(value), place=place, is_inherited=place.is_inherited)
    return reading


def _as_given(value: Any, setting: Setting) -> Any:
    return value


def _place(origin: Any, value: Any) -> Origin:
    """Where a value comes from: from where it came before, if it is still the same."""
    return origin if isinstance(origin, Origin) and _is_same(origin.value, value) else _CODE


def _is_same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)  # True is not 1


def _flattened(
    given: Mapping[str, Any], reading: Reading, origins: Mapping[str, Any]
) -> Iterator[tuple[str, Any, bool]]:
    """Yields (name, value, whether somebody chose it), sections taken apart; what counts more comes later."""
    external = given.get("external", {})
    inside = {key: given[key] for key in given if key in reading.section_names and _is_section(given[key])}
    for section, values in (*external.items(), *inside.items()):
        if not _is_section(values):
            reading.errors.append(f"code: external: {section}: {values!r} is not a section of settings")
        elif isinstance(values, Mapping):
            if section in inside:
                yield from _kept(section, origins)
            yield from ((f"{section}.{name}", value, True) for name, value in values.items())
        else:
            for name, value in vars(values).items():
                setting = reading.settings.get(f"{section}.{name}")
                yield f"{section}.{name}", value, setting is None or value != setting.default
    for key, value in given.items():
        if key not in inside and key != "external" and not (reading.has_wrong_learner and _is_section(value)):
            yield key, value, True


def _kept(section: str, origins: Mapping[str, Any]) -> Iterator[tuple[str, Any, bool]]:
    """What the Config before has in a section."""
    for name, origin in origins.items():
        if name.startswith(f"{section}.") and isinstance(origin, Origin):
            yield name, origin.value, False


def _is_section(value: Any) -> bool:
    return isinstance(value, Mapping) or dataclasses.is_dataclass(value)


def signature_of(fields: Iterable[dataclasses.Field[Any]], *, returns: type) -> inspect.Signature:
    """The signature of a function that takes these fields of a data class by name."""
    parameters = []
    for item in fields:
        default = item.default_factory() if item.default_factory is not dataclasses.MISSING else item.default
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter(item.name, kind, default=default, annotation=item.type))
    return inspect.Signature(parameters, return_annotation=returns)


def _without_numpy(value: Any) -> Any:
    """NumPy's arrays and numbers, also in lists, tuples and dicts, as Python's; nothing here imports it."""
    if hasattr(value, "tolist") and hasattr(value, "dtype"):
        return value.tolist()
    if type(value) is dict:
        return {key: _without_numpy(item) for key, item in value.items()}
    return type(value)(map(_without_numpy, value)) if type(value) in (list, tuple) else value
