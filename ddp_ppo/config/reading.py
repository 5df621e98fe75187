"""Settings while they are read: each is checked by itself, and every complaint is kept with its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ddp_ppo.config.sections import FLAT_NAMES, Section, canonical
from ddp_ppo.config.setting import Setting, nearest
from ddp_ppo.config.yaml_text import RefusedError

NEAREST = ("command line", "code")  # places that win over every file


class Found(NamedTuple):
    """The last value that was read of one setting.

    Attributes:
        value: in its canonical type, where `is_valid`.
        place: "file:line", "command line" or "code".
        spelled: the setting's name as it was written there.
        is_inherited: whether it was read from a file that another one inherits.
    """

    value: Any
    place: str
    spelled: str
    is_inherited: bool
    is_valid: bool

    @property
    def source(self) -> str:
        """The file without the line, "command line" or "code"."""
        return self.place.rpartition(":")[0] or self.place


class Reading:
    """What has been read so far.

    Attributes:
        sections: learner -> section of every learner whose settings may be read.
        settings: every setting by its name.
        found: the settings that were given, by name.
        errors: one line for every mistake, in the order of reading.
        places: files, "command line" and "code", the nearest last.
    """

    def __init__(
        self, general: Mapping[str, Setting], sections: Mapping[str, Section], wrong: Mapping[str, str]
    ) -> None:
        """Begins with nothing read; `wrong` says of learners why they cannot be used."""
        self.sections = sections
        self.settings = dict(general)
        for section in sections.values():
            self.settings |= section.declared
        self.found: dict[str, Found] = {}
        self.errors: list[str] = []
        self.places: list[str] = []
        self._wrong = wrong

    @property
    def has_wrong_learner(self) -> bool:
        """Whether a learner was named that cannot be used."""
        return bool(self._wrong)

    @property
    def section_names(self) -> set[str]:
        """The keys under which a section of settings stands."""
        return {section.name for section in self.sections.values()}

    def take(
        self, spelled: str, read: Callable[[Setting], Any], *, given: str, place: str, is_inherited: bool = False
    ) -> None:
        """Reads and checks one setting; a later value takes the place of an earlier one.

        Args:
            spelled: any of the setting's names.
            read: gives the value for the setting; may raise RefusedError.
            given: the value as it was written.
        """
        name = canonical(spelled)
        if name not in self.settings:
            self.errors.append(f"{place}: {self._unknown(spelled)}")
            return
        setting, value, is_valid = self.settings[name], None, True
        try:
            value = setting.check(read(setting))
            if name == "learner" and value in self._wrong:
                raise RefusedError(self._wrong[value])
        except RefusedError as refused:
            self.errors.append(f"{place}: {setting.complaint(spelled, given, refused)}")
            is_valid = False
        self.found[name] = Found(value, place, spelled, is_inherited, is_valid)
        if (source := self.found[name].source) not in self.places:
            self.places.append(source)
            self.places.sort(key=lambda one: NEAREST.index(one) if one in NEAREST else -1)  # files as they were read

    def _unknown(self, key: str) -> str:
        """What to tell of a name that no setting has."""
        if key in self.section_names:
            return f"{key}: a section of settings; write {key}: {{NAME: VALUE}} in a file, {key}.NAME=VALUE elsewhere"
        known = {*self.settings, *FLAT_NAMES, *self.section_names, "inherits"} - {key}
        near = nearest(key, known) or nearest(key.rpartition(".")[2], known)
        return f"{key}: unknown setting" + (f"; did you mean {near}?" if near else "")
