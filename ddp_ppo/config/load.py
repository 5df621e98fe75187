"""Configurations from YAML files and `key=value` words of the command line.

A file is read as a tree of nodes, so that every message can name file and line, and a scalar is resolved by its
setting's type (yaml_text.py). Everything is gathered first, since the learner that it names decides which sections
there are, then checked in the same order.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

from ddp_ppo.config.packaged import find_source
from ddp_ppo.config.paths import expand_path
from ddp_ppo.config.reading import Reading
from ddp_ppo.config.sections import canonical, sections_of
from ddp_ppo.config.setting import ConfigError, Setting
from ddp_ppo.config.settings import GENERAL, TAKEN, Config
from ddp_ppo.config.settle import settled
from ddp_ppo.config.yaml_text import STR_TAG, RefusedError, compose, entries_of, resolve, shown

_COMMAND_LINE = "command line"


class _Item(NamedTuple):
    """A key and its value, as a file or a word gives them.

    Attributes:
        key: "section.key" in a section.
        node: the value; a word's text as it stands, until its setting is known.
        file, line: where it stands; a word has line 0.
        is_inherited: whether another file inherits this one.
        is_merged: whether the value is merged (`<<`) elsewhere, so that the key need not be a setting.
    """

    key: str
    node: yaml.Node
    file: str
    line: int
    is_inherited: bool = False
    is_merged: bool = False

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Reads a YAML file, what it inherits, and `key=value` words, of which the last one for a key wins.

    In place of a file it takes the name of a configuration of the package (half_cheetah), or an environment's id.

    Text settings take a word's value as it stands (but null is None where that is allowed), others read it as YAML.

    Raises:
        ConfigError: with one line for every mistake found.
    """
    if not isinstance(path, str | os.PathLike):
        raise ConfigError(f"a configuration is named by a text or a path, not by {path!r}")
    if isinstance(overrides, str | Mapping):
        raise ConfigError(f'overrides are a list such as ["seed=3"], not {overrides!r}')
    source = find_source(os.fspath(path))
    gathered = _file_items(source.path, (), is_inherited=source.is_packaged)
    gathered += map(_word_item, (*source.words, *overrides))
    learners = [one.node.value for one in gathered if isinstance(one, _Item) and one.key == "learner"]
    reader = _Reader(Reading(GENERAL, *sections_of(learners, TAKEN)))
    for one in gathered:
        reader.take(one)
    return settled(reader.reading, Config, source.name, (os.fspath(path), *overrides))


def _file_items(path: str, chain: tuple[str, ...], *, is_inherited: bool) -> list[_Item | str]:
    """What a file holds, behind what the one that it inherits holds; texts are complaints.

    Args:
        chain: the files that inherit this one.
    """
    found: list[_Item | str] = []
    try:
        root = compose(Path(path).read_bytes().decode("utf-8-sig"), path)
        if not root.value and not isinstance(root, yaml.CollectionNode):
            raise RefusedError(f"{path}: it is empty; expected lines of the form `key: value`")
        if not isinstance(root, yaml.MappingNode):
            raise RefusedError(f"{path}:{root.start_mark.line + 1}: expected lines of the form `key: value`")
        merged: set[int] = set()
        entries = entries_of(root, merged, lambda line, message: found.append(f"{path}:{line}: {message}"))
        line, parent = entries.pop("inherits", (0, None))
        if parent is not None:
            found += _parent_items(parent, f"{path}:{line}", (*chain, path))
        found += [
            _Item(key, node, path, line, is_inherited, id(node) in merged) for key, (line, node) in entries.items()
        ]
    except OSError as error:
        found.append(f"{path}: cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        found.append(f"{path}: not UTF-8 text (byte {error.start})")
    except RecursionError:
        found.append(f"{path}: nested too deeply, or an anchor that contains itself")
    except RefusedError as error:
        found.append(str(error))
    return found


def _parent_items(node: yaml.Node, place: str, chain: tuple[str, ...]) -> list[_Item | str]:
    """What the file holds that `inherits` names in the last file of `chain`."""
    if not isinstance(node, yaml.ScalarNode) or not node.value.strip() or not node.value.isprintable():
        return [f"{place}: inherits: got {shown(node)}; allowed: the path of one file, relative to this one"]
    try:
        parent = os.path.normpath(Path(chain[-1]).parent / expand_path(node.value))
    except RefusedError as error:
        return [f"{place}: inherits: {node.value}: {error}"]
    if os.path.realpath(parent) in map(os.path.realpath, chain):
        return [f"{place}: inherits: a circle: {' -> '.join((*chain, parent))}"]
    if not os.path.isfile(parent):
        return [f"{place}: inherits: no such file: {parent}"]
    return _file_items(parent, chain, is_inherited=True)


def _word_item(word: str) -> _Item | str:
    """A `key=value` word of the command line."""
    key, equals, text = word.partition("=")
    if not equals:
        return f"{_COMMAND_LINE}: {word}: expected key=value"
    return _Item(key, yaml.ScalarNode(STR_TAG, text, style='"'), _COMMAND_LINE, 0)


class _Reader:
    """Checks items one after the other."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self._first: dict[tuple[str, str], _Item] = {}  # (file, setting) -> where it stands there

    def take(self, item: _Item | str) -> None:
        """Reads a setting, or every setting of a section; a text is a complaint."""
        if isinstance(item, str):
            self.reading.errors.append(item)
            return
        try:
            if item.key in self.reading.section_names and isinstance(item.node, yaml.MappingNode):
                self._take_section(item, item.node)
            else:
                self._take_setting(item)
        except RefusedError as error:
            self.reading.errors.append(str(error))
        except RecursionError:
            self.reading.errors.append(f"{item.place}: nested too deeply, or an anchor that contains itself")

    def _take_section(self, item: _Item, node: yaml.MappingNode) -> None:
        def refuse(line: int, message: str) -> None:
            self.reading.errors.append(f"{item.file}:{line}: {item.key}: {message}")

        for key, (line, value) in entries_of(node, set(), refuse).items():
            self._take_setting(item._replace(key=f"{item.key}.{key}", node=value, line=line))

    def _take_setting(self, item: _Item) -> None:
        setting = self.reading.settings.get(canonical(item.key))
        if setting is None and self._is_passed_over(item):
            return
        first = self._first.setdefault((item.file, canonical(item.key)), item)
        if item.line and first is not item:
            lines = f"on lines {first.line} and {item.line}"
            raise RefusedError(f"{item.place}: {item.key}: given twice, as {first.key} and {item.key}, {lines}")
        node = item.node if item.line or setting is None else _word_node(item, setting)
        self.reading.take(
            item.key,
            lambda setting: resolve(node, setting.kind.name),
            given=shown(node),
            place=item.place,
            is_inherited=item.is_inherited,
        )

    def _is_passed_over(self, item: _Item) -> bool:
        """Whether an unknown key is not a mistake, or the section of a learner that was complained about."""
        return item.is_merged or (self.reading.has_wrong_learner and isinstance(item.node, yaml.MappingNode))


def _word_node(item: _Item, setting: Setting) -> yaml.Node:
    """The value of a word for its setting: text as it stands, else YAML."""
    text = str(item.node.value)
    if setting.kind.name == "str" and not (text == "null" and setting.is_optional):
        return item.node
    try:
        return compose(text or "null", _COMMAND_LINE)
    except RefusedError as error:
        raise RefusedError(f"{error} in {item.key}={text}") from error
