"""YAML as text: nodes from which nothing is ever constructed, scalars as YAML 1.2 reads them, values as text.

A scalar is resolved by what is wanted in its place, so `no` is text where text is wanted and refused where a bool is.
What YAML 1.1 and 1.2 read differently is refused with what to write instead.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import yaml


class RefusedError(Exception):
    """A text or a value is not acceptable; the message says why or what to write, and may be empty."""


class _Loader(yaml.SafeLoader):
    """Composes nodes without guessing types: plain scalars stay text, so any other tag was written by hand."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 (PyYAML's own attribute)


STR_TAG = "tag:yaml.org,2002:str"
_TAGS = {STR_TAG, "tag:yaml.org,2002:seq", "tag:yaml.org,2002:map"}
_WORDS: dict[str, bool | None] = {"": None, "~": None, "null": None, "Null": None, "NULL": None}
_WORDS |= {word: word.lower() == "true" for word in ("true", "True", "TRUE", "false", "False", "FALSE")}
_YES_NO = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
_INTEGER = re.compile(r"[-+]?\d+(_\d+)*", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\d+(_\d+)*(\.\d*)?|\.\d+)([eE][-+]?\d+)?", re.ASCII)
_LEADING_ZERO = re.compile(r"[-+]?0[\d_].*")
_SPECIAL = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def compose(text: str, place: str) -> yaml.Node:
    """The node tree of a YAML document, an empty text for an empty one."""
    try:
        return yaml.compose(text, _Loader) or yaml.ScalarNode(STR_TAG, "")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark and place != "command line" else ""
        raise RefusedError(f"{place}{line}: not valid YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise RefusedError(f"{place}: not valid YAML: {' '.join(str(error).split())}") from None


def entries_of(
    node: yaml.MappingNode, merged: set[int], refuse: Callable[[int, str], None]
) -> dict[str, tuple[int, yaml.Node]]:
    """Key -> (line, value) of a mapping; own keys win over merged ones (`<<`), whose nodes' ids go into `merged`."""
    own: dict[str, tuple[int, yaml.Node]] = {}
    bases: list[yaml.Node] = []
    for key_node, value in node.value:
        key, line = str(key_node.value), key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            refuse(line, "a key must be plain text")
        elif key in own:
            refuse(line, f"{key}: given twice, on lines {own[key][0]} and {line}")
        elif key == "<<" and not key_node.style:
            bases += value.value if isinstance(value, yaml.SequenceNode) else [value]
        else:
            own[key] = (line, value)
    for base in bases:
        merged.add(id(base))
        if isinstance(base, yaml.MappingNode):
            own = entries_of(base, merged, refuse) | own
        else:
            refuse(base.start_mark.line + 1, "<<: expected a mapping or a list of mappings")
    return own


def resolve(node: yaml.Node, kind: str) -> Any:
    """The Python value of a node where a setting of this kind is wanted ("" for anything)."""
    if node.tag not in _TAGS:
        raise RefusedError(f"the tag {node.tag} is not read here")
    if isinstance(node, yaml.SequenceNode):
        of = kind.removeprefix("list[").removesuffix("]") if kind.startswith("list[") else ""
        return [resolve(item, of) for item in node.value]
    if isinstance(node, yaml.MappingNode):
        problems: list[str] = []
        entries = entries_of(node, set(), lambda line, message: problems.append(f"line {line}: {message}"))
        if problems:
            raise RefusedError("; ".join(problems))
        return {key: resolve(value, "") for key, (_, value) in entries.items()}
    text = str(node.value)
    if isinstance(node, yaml.ScalarNode) and node.style:
        if kind in ("int", "float", "bool"):
            raise RefusedError("remove the quotes")
        return text
    if kind == "str" and _WORDS.get(text, text) is not None:
        if text in _WORDS or _FLOAT.fullmatch(text):
            raise RefusedError(f'quote it if it is meant as text: "{text}"')
        return text
    value = _resolve_plain(text, kind)
    is_exponent = kind.startswith("int") and isinstance(value, float) and "e" in text.lower()
    return int(value) if is_exponent and value.is_integer() and abs(value) < 2**53 else value


def _resolve_plain(text: str, kind: str) -> Any:
    """An unquoted scalar as YAML 1.2 reads it; refuses what YAML 1.1 reads differently."""
    if text in _WORDS:
        return _WORDS[text]
    if text.lower() in _YES_NO and kind in ("bool", ""):
        raise RefusedError(f"write {_YES_NO[text.lower()]}" + (f', or "{text}" for text' if not kind else ""))
    if _FLOAT.fullmatch(text) and _LEADING_ZERO.fullmatch(text):
        raise RefusedError("write the number without a leading zero")
    if _INTEGER.fullmatch(text) and len(text) < 20:  # beyond that a float says the same, and is refused or not
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return float(text.replace(".", "")) if _SPECIAL.fullmatch(text) else text


def values_of(text: str, place: str, *, whole: Collection[str] = ()) -> dict[str, tuple[Any, str]]:
    """Key -> (value, the comment behind it) of a document that is one mapping.

    A mapping in it is taken apart, `key.inner` for each of its keys, unless its own key is one of `whole`.

    Raises:
        RefusedError: it is another one.
    """
    node = compose(text, place)
    if not isinstance(node, yaml.MappingNode):
        raise RefusedError(f"{place}: not a mapping of settings")
    return dict(_values_of(node, place, text.splitlines(), whole))


def _values_of(
    node: yaml.MappingNode, place: str, lines: Sequence[str], whole: Collection[str] | None
) -> Iterator[tuple[str, tuple[Any, str]]]:
    problems = list[str]()
    entries = entries_of(node, set(), lambda line, message: problems.append(f"{place}:{line}: {message}"))
    if problems:
        raise RefusedError("; ".join(problems))
    for key, (_, value) in entries.items():
        end = value.end_mark
        if isinstance(value, yaml.MappingNode) and whole is not None and key not in whole:
            yield from ((f"{key}.{inner}", one) for inner, one in _values_of(value, place, lines, None))
        else:
            yield key, (resolve(value, ""), lines[end.line][end.column :].strip().lstrip("# ") if end.column else "")


def plain_data(value: Any) -> Any:
    """A deep copy in what YAML can hold (tuples become lists); refuses everything else."""
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: plain_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_data(item) for item in value]
    if isinstance(value, float) and not math.isnan(value):
        return float(value)
    if value is None or type(value) in (bool, int, str):
        return value
    raise RefusedError(f"{value!r} is not text, a number, true, false, null, a list or a mapping")


def shown(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return json.dumps(node.value, ensure_ascii=False) if node.style else node.value or "nothing"
    start, end = node.start_mark, node.end_mark
    text = " ".join(start.buffer[start.pointer : end.pointer].split()) if start and start.buffer else "nothing"
    return text if len(text) <= 60 else f"{text[:57]}..."


def to_yaml(value: Any) -> str:
    """One value as YAML on one line, text always quoted."""
    if isinstance(value, str):
        return str(yaml.safe_dump(value, default_style='"', width=math.inf, allow_unicode=True)).rstrip("\n")
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{to_yaml(key)}: {to_yaml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(to_yaml, value)) + "]"
    if isinstance(value, float) and math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    return json.dumps(value)
