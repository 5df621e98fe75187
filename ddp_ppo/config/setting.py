"""One setting: a field of a data class with its default, its documentation and its limits, and how a value is checked.

A kind of setting says in words what it allows and brings a value to its canonical Python type; a further kind is one
more class and one more row of `_KINDS`. The settings of a learner from outside the package are declared with `setting`
as well.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from numbers import Real
from types import UnionType
from typing import Any, ClassVar, Literal, Protocol, Union, get_args, get_origin, get_type_hints

from ddp_ppo.config.frozen import FrozenDict, frozen
from ddp_ppo.config.paths import expand_path
from ddp_ppo.config.yaml_text import RefusedError, plain_data

LARGEST = 10**18  # of any number: fits 64 bits, and comparing with it refuses inf and nan
_NEAR = 0.75  # similarity (difflib's) from which a name is suggested; num_epochs for num_steps has 0.74


class ConfigError(ValueError):
    """Settings that cannot be used; each line of the message says where, which key, what was given, what is allowed."""


class Kind(Protocol):
    """What the values of a setting are."""

    @property
    def name(self) -> str:
        """The type in a document: "int", "list[int]", ..."""

    @property
    def allowed(self) -> str:
        """What is accepted, in words."""

    def check(self, value: Any) -> Any:
        """Returns the value in its canonical Python type; raises RefusedError where it is not allowed."""


@dataclass(frozen=True, kw_only=True)
class Number:
    """A number within limits."""

    low: float = -LARGEST
    above: float = -math.inf  # must be larger than this
    high: float = LARGEST
    name: ClassVar[str] = "float"
    words: ClassVar[str] = "a number"

    @property
    def allowed(self) -> str:
        bounds = ((">", self.above), (">=", self.low), ("<=", self.high))
        return self.words + " and".join(f" {sign} {bound}" for sign, bound in bounds if abs(bound) < LARGEST)

    def check(self, value: Any) -> float:
        _require(isinstance(value, Real) and not isinstance(value, bool))
        _require(not abs(value) > LARGEST, f"no setting may exceed {LARGEST:.0e}")  # NaN fails below
        _require(self.above < value and self.low <= value <= self.high)
        return float(value)


class Whole(Number):
    """A whole number within limits."""

    name = "int"
    words = "a whole number"

    def check(self, value: Any) -> int:
        _require(not isinstance(value, float), f"write {value:.0f}" if _is_integer(value) else "")
        super().check(value)
        return int(value)


class Flag:
    """True or false."""

    name = "bool"
    allowed = "true or false"

    def check(self, value: Any) -> bool:
        _require(isinstance(value, bool))
        return bool(value)


@dataclass(frozen=True, kw_only=True)
class Text:
    """One line of text; where it is a path, `~` and `$VARIABLES` are replaced."""

    pattern: str = r".*\S.*"
    expected: str = "text"
    is_path: bool = False
    name: ClassVar[str] = "str"

    @property
    def allowed(self) -> str:
        return self.expected

    def check(self, value: Any) -> str:
        value = os.fspath(value) if self.is_path and isinstance(value, os.PathLike) else value
        _require(isinstance(value, str) and value.isprintable() and re.fullmatch(self.pattern, value) is not None)
        return expand_path(value) if self.is_path else str(value)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One of a few words."""

    choices: tuple[str, ...]
    name: ClassVar[str] = "str"

    @property
    def allowed(self) -> str:
        return "one of " + ", ".join(self.choices)

    def check(self, value: Any) -> str:
        near = nearest(value, self.choices) if isinstance(value, str) else ""
        _require(value in self.choices, f"did you mean {near}?" if near else "")
        return str(value)


@dataclass(frozen=True, kw_only=True)
class OrWord:
    """A word that is allowed in place of a value."""

    word: str
    value: Kind

    @property
    def name(self) -> str:
        return f"{self.value.name} or {self.word}"

    @property
    def allowed(self) -> str:
        return f"{self.word} or {self.value.allowed}"

    def check(self, value: Any) -> Any:
        return value if value == self.word else self.value.check(value)


@dataclass(frozen=True, kw_only=True)
class List:
    """A list of values of one kind."""

    item: Kind
    words: str

    @property
    def name(self) -> str:
        return f"list[{self.item.name}]"

    @property
    def allowed(self) -> str:
        return f"a list of {self.words}"

    def check(self, value: Any) -> tuple[Any, ...]:
        _require(isinstance(value, list | tuple))
        return tuple(map(self.item.check, value))


class Arguments:
    """Plain data by the names of a function's arguments; it cannot be changed."""

    name = "dict"
    allowed = "a mapping of names"

    def check(self, value: Any) -> Mapping[str, Any]:
        _require(isinstance(value, Mapping))
        for name in value:
            message = f"{name!r} is not a name of an argument; does a colon lack the space behind it?"
            _require(str(name).isidentifier(), message)
        return FrozenDict(frozen(plain_data(value)))


_KINDS: Mapping[Any, Callable[..., Kind]] = {  # by the type of the field
    int: Whole,
    float: Number,
    bool: Flag,
    str: Text,
    tuple[int, ...]: partial(List, item=Whole(low=1), words="whole numbers >= 1"),
    tuple[str, ...]: partial(List, item=Text(), words="texts"),
    Mapping[str, Any]: Arguments,
}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What one setting means and allows.

    Attributes:
        name: "gamma", or "ppo.clip_range" for one in a learner's section.
        is_optional: whether null is a value too.
    """

    name: str
    kind: Kind
    is_optional: bool
    default: Any
    doc: str

    @property
    def type(self) -> str:
        """The type in a document, such as "int" or "float | None"."""
        return self.kind.name + (" | None" if self.is_optional else "")

    @property
    def allowed(self) -> str:
        """What the setting accepts, in words."""
        return self.kind.allowed + (" or null" if self.is_optional else "")

    def check(self, value: Any) -> Any:
        """Returns the value in its canonical Python type; raises RefusedError where it is not allowed."""
        return None if value is None and self.is_optional else self.kind.check(value)

    def complaint(self, spelled: str, given: str, refused: RefusedError) -> str:
        """What is wrong with a value, in one line; `spelled` is the setting's name as the person wrote it."""
        hint = f" ({refused})" if str(refused) else ""
        return f"{spelled}: got {given}; allowed: {self.allowed}{hint}"


def setting(default: Any, *, doc: str, **limits: Any) -> Any:
    """A field of a data class that is a setting; its annotation says of which kind.

    Args:
        doc: one or two sentences: what it does, and what larger and smaller values lead to.
        limits: of its kind, such as low, above and high of a number.
    """
    metadata = {"doc": doc, "limits": limits}
    if isinstance(default, Mapping):
        return field(default_factory=lambda: frozen(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@cache
def settings_of(declaring: type, section: str = "") -> Mapping[str, Setting]:
    """The settings that a data class declares, by name; those of a learner's section are called `section.field`.

    Raises:
        TypeError: a field's annotation or limits are of no kind of setting.
    """
    hints = get_type_hints(declaring)
    found = {}
    for item in (item for item in dataclasses.fields(declaring) if "doc" in item.metadata):
        kind, is_optional = _kind_of(hints[item.name], item.metadata["limits"])
        default = item.default_factory() if item.default_factory is not dataclasses.MISSING else item.default
        name = f"{section}.{item.name}" if section else item.name
        found[name] = Setting(name=name, kind=kind, is_optional=is_optional, default=default, doc=item.metadata["doc"])
    return found


def _kind_of(hint: Any, limits: Mapping[str, Any]) -> tuple[Kind, bool]:
    """The kind of setting that an annotation asks for, and whether None is allowed."""
    if get_origin(hint) in (Union, UnionType):
        first, *others = get_args(hint)
        if others == [type(None)]:
            return _kind_of(first, limits)[0], True
        if get_origin(others[0]) is Literal:
            return OrWord(word=get_args(others[0])[0], value=_kind_of(first, limits)[0]), False
    if get_origin(hint) is Literal:
        return Choice(choices=get_args(hint), **limits), False
    if hint not in _KINDS:
        raise TypeError(f"{hint} is not a type of a setting")
    return _KINDS[hint](**limits), False


def nearest(word: str, words: Iterable[str]) -> str:
    """The word that is most like it; empty where none is near."""
    return next(iter(difflib.get_close_matches(word, list(words), 1, _NEAR)), "")


def _require(is_allowed: bool, reason: str = "") -> None:
    if not is_allowed:
        raise RefusedError(reason)


def _is_integer(value: Any) -> bool:
    return isinstance(value, float) and value.is_integer()
