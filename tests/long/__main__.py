"""`python -m tests.long [CHECK ...]`: runs the checks that take minutes, prints a table, and counts.

The last line is `N passed, N failed, N skipped`; the exit code is 1 where something failed. Without names all run:
about half an hour on two cores. Nothing else should load the machine meanwhile.
"""

from __future__ import annotations

import argparse
import collections
import sys
import tempfile
import time
from pathlib import Path

from tests.long import effects, fuzz, growth, healthy, kill, nan, resume
from tests.long.report import FAILED, PASSED, SKIPPED

CHECKS = {module.__name__.rpartition(".")[2]: module for module in (fuzz, growth, nan, resume, kill, effects, healthy)}


def main() -> int:
    """Runs what the command line names."""
    lines = "\n".join(f"  {name:8} {(module.__doc__ or '').splitlines()[0]}" for name, module in CHECKS.items())
    parser = argparse.ArgumentParser(
        description="Fault checks that take minutes.", epilog=lines, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("checks", nargs="*", metavar="CHECK", help="names, or name:PART for the cases that hold PART")
    args = parser.parse_args()
    if unknown := {word.partition(":")[0] for word in args.checks} - CHECKS.keys():
        parser.error(f"no such check: {', '.join(sorted(unknown))}")
    count: collections.Counter[str] = collections.Counter()
    for word in args.checks or CHECKS:
        name, _, part = word.partition(":")
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="ddp_ppo_long_") as folder:
            for row in CHECKS[name].run(Path(folder).resolve(), part):
                count[row.verdict] += 1
                print(f"{name:8} {row.case:28} {row.verdict:7} {row.figures}", flush=True)
        print(f"{name:8} took {time.monotonic() - start:.0f} s", flush=True)
    print(f"{count[PASSED]} passed, {count[FAILED]} failed, {count[SKIPPED]} skipped")
    return int(count[FAILED] > 0)


if __name__ == "__main__":
    sys.exit(main())
