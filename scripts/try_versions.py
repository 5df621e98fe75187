#!/usr/bin/env python3
"""Runs the tests with the lowest or the newest releases that setup.cfg allows.

    python scripts/try_versions.py lowest                      # every test
    python scripts/try_versions.py lowest --pin torch==2.13.0 envs sampling/test_actor
    python scripts/try_versions.py newest --python python3.13

Installs the required packages without extras, and what builds a wheel, into `build/<lowest or newest>-<python>`, and
keeps that for the next call. The last line is that of tests/runner.py: `N passed, N failed, N skipped`. Releases of
torch on PyPI are CUDA builds of several GB on Linux; `--pin` names another one, or a wheel file.
"""

from __future__ import annotations

import argparse
import configparser
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def requirements(which: str, pins: Sequence[str]) -> list[str]:
    """What pip is asked for: every bound `name>=1.2` as it is, or as `name==1.2`, unless it is pinned otherwise."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    bounds = setup["options"]["install_requires"].split()
    pinned = {name_of(pin) for pin in pins}
    free = [bound for bound in bounds if name_of(bound) not in pinned]
    return [*(bound.replace(">=", "==") if which == "lowest" else bound for bound in free), *pins]


def name_of(requirement: str) -> str:
    """The package of `name[extra]>=1.2`, `name==1.2` or a wheel file."""
    return re.split(r"[-\[<>=]", Path(requirement).name, maxsplit=1)[0].lower()


def installed(options: argparse.Namespace) -> Path:
    """The interpreter of the environment, built or brought up to date."""
    folder = ROOT / "build" / f"{options.which}-{Path(options.python).name}"
    python = folder / "bin" / "python"
    pip = [python, "-m", "pip", "--disable-pip-version-check"]
    if not python.exists():
        _run([options.python, "-m", "venv", folder])
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    _run([*pip, "install", "-q", "--upgrade", *requirements(options.which, options.pin), *build])
    _run([*pip, "list"])
    return python


def _run(words: Sequence[str | Path]) -> None:
    if subprocess.run(words).returncode:
        raise SystemExit(f"try_versions.py: {' '.join(map(str, words))} failed for the reason above")


def main() -> int:
    """Exit status of the tests."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", choices=("lowest", "newest"))
    parser.add_argument("modules", nargs="*", help="test modules or folders, as for tests/runner.py; all unless given")
    parser.add_argument(
        "--pin", action="append", default=[], help="another release than that of setup.cfg, torch==2.13.0"
    )
    parser.add_argument("--python", default=sys.executable, help="interpreter of the environment")
    options = parser.parse_intermixed_args()  # options may stand between modules
    words = [installed(options), ROOT / "tests" / "runner.py", *options.modules]
    return subprocess.run(words, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}).returncode


if __name__ == "__main__":
    raise SystemExit(main())
