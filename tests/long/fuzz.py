"""Every setting with every typing mistake, with values of every wrong type, and out of range: refused by name.

Each mistake goes through the program's own command line in this process, in a file and as a word of the command line;
a few go through a process of their own too. Nothing may be started or created.
"""

from __future__ import annotations

import contextlib
import io
import math
import multiprocessing
import os
import random
import string
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ddp_ppo.__main__ import main
from ddp_ppo.config.sections import FLAT_NAMES
from ddp_ppo.config.setting import LARGEST, Choice, Number, Setting, Text, Whole
from ddp_ppo.config.settings import describe_settings
from ddp_ppo.config.yaml_text import to_yaml
from tests.long.report import Row, start, verdict
from tests.support.process import files_in

STARTING = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec"}
NUM_PROCESSES = 12  # mistakes of each kind that a process of their own is started for
WRONG_TYPES = {
    "int": ["true", "yes", "1.5", "'3'", "[1]", "{a: 1}", "abc", "0x10", "010", "1:30", ".nan", ".inf", "1,000", "--1"],
    "float": ["true", "no", "'0.5'", "[0.5]", "{a: 1}", "abc", "0x10", "00.5", "1:30", ".nan", ".inf", "1,5", "1e"],
    "bool": ["1", "0", "'true'", "yes", "off", "[true]", "{a: true}", "abc", "1.0"],
    "str": ["1", "1.5", "true", "[a]", "{a: b}", "1e3"],
    "list[str]": ["3", "abc", "{a: 1}", "[1]", "[true]", "[[a]]", "true", "[null]"],
    "list[int]": ["3", "abc", "{a: 1}", "[a]", "[1.5]", "[true]", "[[1]]", "['1']", "true", "[null]"],
    "dict": ["3", "abc", "[1]", "true", "1.5", "'{}'"],
}


class Mistake(NamedTuple):
    """A line of a file, the word of a command line that says the same (None if it cannot), and the key to be named."""

    line: str
    word: str | None
    key: str


def typos(settings: tuple[Setting, ...]) -> Iterator[Mistake]:
    """Every deletion, swap of neighbours, and one other letter and one more at each place of each key."""
    known = {setting.name for setting in settings} | {*FLAT_NAMES, "inherits"}
    generator = random.Random(1)
    for setting in settings:
        name, value = setting.name, to_yaml(setting.default)
        found = set()
        for i in range(len(name) + 1):
            letter = generator.choice(string.ascii_lowercase)
            found.add(name[:i] + letter + name[i:])
            if i < len(name):
                found |= {name[:i] + name[i + 1 :], name[:i] + letter + name[i + 1 :]}
                found.add(name[:i] + name[i : i + 2][::-1] + name[i + 2 :])
        for typo in sorted(found - known):
            yield Mistake(f"{typo}: {value}", f"{typo}={value}", typo)


def wrong_types(settings: tuple[Setting, ...]) -> Iterator[Mistake]:
    """Values of every other type."""
    for setting in settings:
        values = WRONG_TYPES[setting.kind.name] + ([] if setting.is_optional else ["null", ""])
        for value in values:
            has_word = setting.kind.name != "str"  # text is taken from the command line as it stands
            yield Mistake(f"{setting.name}: {value}", f"{setting.name}={value}" if has_word else None, setting.name)


def out_of_range(settings: tuple[Setting, ...]) -> Iterator[Mistake]:
    """Values beside the limits and far outside, words that are no choice, text that does not fit."""
    for setting in settings:
        for value in values_out_of_range(setting):
            yield Mistake(f"{setting.name}: {value}", f"{setting.name}={value.strip(chr(34))}", setting.name)


def values_out_of_range(setting: Setting) -> list[str]:
    """For one setting."""
    kind = setting.kind
    if isinstance(kind, Choice):
        first = kind.choices[0]
        return ["abc", first.upper(), f"{first}x", '""', f'" {first}"']
    if kind.name == "list[int]":
        return ["[0]", "[-1]", "[8, 0]", f"[{LARGEST * 10}]"]
    if isinstance(kind, Whole):
        values = [f"{LARGEST * 10}", "-1" + "0" * 20]
        values += [f"{int(kind.low) - 1}", "-7"] if kind.low > -LARGEST else []
        return values + ([f"{int(kind.high) + 1}"] if kind.high < LARGEST else [])
    if isinstance(kind, Number):
        values = ["1e300", "-1e300", "1e400"]
        values += [f"{math.nextafter(kind.low, -math.inf)!r}", f"{kind.low - 1.5}"] if kind.low > -LARGEST else []
        values += [f"{kind.above!r}", "0.0", "-1e-9"] if kind.above > -math.inf else []
        return values + (
            [f"{math.nextafter(kind.high, math.inf)!r}", f"{2 * kind.high + 1}"] if kind.high < LARGEST else []
        )
    return ['""', '"  "'] if isinstance(kind, Text) else []


def run(folder: Path, part: str = "") -> Iterator[Row]:
    """One row for each kind of mistake and each way in."""
    settings = describe_settings()
    kinds = {"typos": typos, "wrong types": wrong_types, "out of range": out_of_range}
    for kind, mistakes in kinds.items():
        if part in kind:
            yield from check(folder / kind.replace(" ", "-"), kind, [*mistakes(settings)], len(settings))


def check(folder: Path, kind: str, mistakes: list[Mistake], num_settings: int) -> Iterator[Row]:
    """In this process: all of them; in others: some."""
    folder.mkdir()
    config, empty = folder / "config.yaml", folder / "empty.yaml"
    empty.write_text("{}\n")
    started: list[str] = []
    sys.addaudithook(lambda event, _: started.append(event) if event in STARTING else None)
    before = os.getcwd()
    os.chdir(folder)
    try:
        for way in ("file", "command line"):
            failures: list[str] = []
            tried = 0
            for mistake in mistakes:
                if way == "file":
                    config.write_text(f"# a comment\nseed: 3\n{'' if mistake.key != 'seed' else '#'}\n{mistake.line}\n")
                    if mistake.key == "seed":
                        config.write_text(f"# a comment\n\n\n{mistake.line}\n")
                    words, place = [str(config)], f"{config}:4"
                elif mistake.word is not None:
                    words, place = [str(empty), mistake.word], "command line"
                else:
                    continue
                # Should one be let through, it does not train for hours.
                words += [] if mistake.key == "total_env_steps" else ["total_env_steps=1"]
                tried += 1
                if problem := refusal(words, place, mistake.key):
                    failures.append(f"{mistake.line if way == 'file' else mistake.word}: {problem}")
            created = files_in(folder) - {"config.yaml", "empty.yaml"}
            num_started = len(started) + len(multiprocessing.active_children())
            is_right = not failures and not created and not num_started
            figures = (
                f"{tried} tried over {num_settings} settings, {len(failures)} failed, {num_started} processes started"
            )
            figures += f", {len(created)} files created" + "".join(f"; {failure}" for failure in failures[:6])
            yield Row(verdict(is_right), f"{kind}, {way}", figures)
    finally:
        os.chdir(before)
    yield in_processes(folder, kind, random.Random(2).sample(mistakes, NUM_PROCESSES))


def refusal(words: list[str], place: str, key: str) -> str:
    """What was wrong with how a mistake was refused; empty if it was as it should be."""
    errors, output = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(output):
            code: Any = main(["train", *words])
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    text = errors.getvalue()
    if code != 2:
        return f"exit code {code}"
    return "" if f"{place}: {key}:" in text else f"not named: {text.strip()[:120]}"


def in_processes(folder: Path, kind: str, mistakes: list[Mistake]) -> Row:
    """The same as users do it: a process each, which may start no other and create nothing."""
    failures, most = [], 0.0
    for number, mistake in enumerate(mistakes):
        work = folder / f"process-{number}"
        config = folder / f"{number}.yaml"
        config.write_text(f"{mistake.line}\n")
        with start(work, config) as program:
            num_processes = 0
            while program.process.poll() is None:
                num_processes = max(num_processes, len(program.alive()))
            ended = program.end(30)
        most = max(most, ended.seconds)
        if (ended.code, ended.left, num_processes) != (2, [], 1) or files_in(work) or mistake.key not in ended.err:
            failures.append(f"{mistake.line}: exit code {ended.code}, {num_processes} processes: {ended.err[:100]}")
    figures = f"{len(mistakes)} tried, {len(failures)} failed, at most {most:.1f} s each"
    return Row(verdict(not failures), f"{kind}, processes", "; ".join([figures, *failures[:5]]))
