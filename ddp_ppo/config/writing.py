"""Settings as text: the file that a run keeps of them, and the page that documents them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ddp_ppo.config.sections import OWN, Section, canonical
from ddp_ppo.config.setting import Setting
from ddp_ppo.config.settings import Config, describe_settings
from ddp_ppo.config.yaml_text import to_yaml, values_of


def dump_effective(config: Config) -> str:
    """YAML text of all settings, their origins as comments, which `load_config` reads back to an equal Config."""
    lines, section = [], ""
    for name, value in config.values().items():
        before, section, key = section, *name.rpartition(".")[::2]
        lines += [f"{section}:"] if section != before else []
        lines.append(f"{'  ' if section else ''}{key}: {to_yaml(value)}  # {config.origins[name]}")
    return "\n".join(lines) + "\n"


def save_effective(config: Config, path: str | Path) -> None:
    """Writes `dump_effective` to a file."""
    Path(path).write_text(dump_effective(config), encoding="utf-8")


def read_effective(text: str, place: str) -> dict[str, tuple[Any, str]]:
    """Name -> (value, origin) of what `dump_effective` has written, here or in a release without sections.

    Raises:
        RefusedError: it is not YAML of one mapping.
    """
    found = values_of(text, place, whole=_MAPPINGS)
    return {canonical(name): value for name, value in found.items()}


def settings_reference() -> str:
    """All settings as a Markdown document."""
    settings = describe_settings()
    lines = [
        "# Settings",
        "",
        "Every setting of a configuration file, which is also a `KEY=VALUE` word on the command line. This page is",
        "what `ddp-ppo settings` prints. `inherits: other.yaml`, relative to the file, takes everything from another",
        "file first, sections key by key. In paths `~` and `$VARIABLES` stand for what they do in a shell. Instead of",
        "a file, a command takes the name of one in `configs/` (`ant`), or a task (`Ant-v5`): its file there or",
        "`base`.",
        "",
        *_table(one for one in settings if "." not in one.name),
    ]
    for section in OWN.values():
        lines += ["", f"## {section.title}", "", *_introduction(section), "", *_table(section.declared.values())]
    return "\n".join(lines) + "\n"


_FLAT = {  # of the sections whose settings had names before there were sections
    "ppo": "Without the section its names are read too.",
    "disco": "`disco_NAME`, without the section, is read too.",
}


def _introduction(section: Section) -> list[str]:
    lines = [
        f"Read by `learner: {section.name}` alone: `{section.name}: {{NAME: VALUE}}` in a file,",
        f"`{section.name}.NAME=VALUE` on the command line. {_FLAT.get(section.name, '')}".rstrip(),
    ]
    unread = ", ".join(f"`{name}`" for name in section.unread)
    return [*lines, *([f"{section.title} does not read {unread}."] if unread else [])]


_MAPPINGS = {one.name for one in describe_settings() if one.kind.name == "dict"}


def _table(settings: Iterable[Setting]) -> list[str]:
    lines = ["| setting | type | default | allowed | meaning |", "|---|---|---|---|---|"]
    for one in settings:
        cells = [f"`{one.name}`", one.type, f"`{to_yaml(one.default)}`", one.allowed, one.doc]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return lines
