"""Runs the test modules in several processes, as many at once as there are cores, and counts the results.

`python tests/runner.py [test_gae maths ...]` prints a line per process as it ends, then the output of those that
failed, and last the line `N passed, N failed, N skipped`. A process that hangs or dies counts as one failure; whatever
processes it leaves behind are killed. It exits 1 where something failed, or where no test passed.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
HANG_SECONDS = 500.0
ALONE_BYTES, MAX_TOGETHER = 9000, 8
POLL_SECONDS = 0.02


@dataclass
class Report:
    """Counts of one module or of many; `outputs` are those of modules with failures."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    outputs: list[str] = field(default_factory=list)

    def add(self, other: Report) -> None:
        """Adds another report to this one."""
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.outputs += other.outputs

    def __str__(self) -> str:
        """The closing line."""
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


class CountingResult(unittest.TextTestResult):
    """Counts test methods: one with failing or skipped subtests is one failed or skipped test, not several."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.num_passed = 0

    def addSuccess(self, test):
        """Called once per method, and only where all of its subtests succeeded."""
        super().addSuccess(test)
        self.num_passed += 1

    def report(self) -> Report:
        """What was counted so far."""
        broken = [test for test, _ in [*self.failures, *self.errors]] + self.unexpectedSuccesses
        failed = {method_id(test) for test in broken}
        skipped = {method_id(test) for test, _ in self.skipped} - failed
        return Report(self.num_passed + len(self.expectedFailures), len(failed), len(skipped))


def method_id(test: unittest.TestCase) -> str:
    """The id of a test method, also for one of its subtests."""
    return getattr(test, "test_case", test).id()


def run_modules(paths: list[Path], report_path: Path) -> None:
    """Runs modules in this process and leaves their report as JSON."""
    faulthandler.enable()
    faulthandler.dump_traceback_later(HANG_SECONDS * 0.95)  # shows where it hangs, shortly before it is killed
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths]
    suite = unittest.defaultTestLoader.loadTestsFromNames(names)
    result = unittest.TextTestRunner(verbosity=2, resultclass=CountingResult).run(suite)
    faulthandler.cancel_dump_traceback_later()
    report_path.write_text(json.dumps(vars(result.report())))


class RunningModules:
    """Test modules in a process group of their own; output goes to a file, which no left-over process can block."""

    def __init__(self, paths: list[Path], folder: Path) -> None:
        self.name = " ".join(str(path.relative_to(TESTS).with_suffix("")) for path in paths)
        file_name = self.name.split()[0].replace("/", ".")
        self.report_path, self.output_path = folder / f"{file_name}.json", folder / f"{file_name}.txt"
        self.start = time.monotonic()
        command = [sys.executable, "-m", "tests.runner", "--report", str(self.report_path), *map(str, paths)]
        with self.output_path.open("wb") as output:
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start

    def is_over(self) -> bool:
        """Whether it ended or has to be ended."""
        return self.process.poll() is not None or self.seconds > HANG_SECONDS

    def kill(self) -> None:
        """Ends the whole process group, what the module left behind included."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def collect(self) -> Report:
        """Ends it and returns its report: one failure where it left none."""
        code = self.process.poll()
        self.kill()
        how = f" died with exit code {code}" if code else ""
        if code is None:
            how = f" hung and was killed after {HANG_SECONDS:.0f} s"
        report = Report(failed=1)
        if code == 0 and self.report_path.exists():
            report = Report(**json.loads(self.report_path.read_text()))
        if report.failed:
            report.outputs = [f"FAILED {self.name}{how}:\n{self.output_path.read_text(errors='replace').rstrip()}"]
        return report


def batches(paths: list[Path]) -> list[list[Path]]:
    """The modules that each process runs: a large one alone, small ones of a folder together.

    To import torch takes longer than most small modules.
    """
    found: list[list[Path]] = []
    open_batches: dict[str, list[Path]] = {}
    for path in paths:
        batch = open_batches.get(path.relative_to(TESTS).parts[0], [])
        if path.stat().st_size >= ALONE_BYTES or not 0 < len(batch) < MAX_TOGETHER:
            batch = []
            found.append(batch)
            if path.stat().st_size < ALONE_BYTES:
                open_batches[path.relative_to(TESTS).parts[0]] = batch
        batch.append(path)
    return found


def run_all(paths: list[Path], num_workers: int) -> Report:
    """Runs the modules, at most `num_workers` processes at a time; interrupted, it leaves no process behind."""
    total = Report()
    waiting = list(reversed(batches(paths)))
    running: list[RunningModules] = []
    with tempfile.TemporaryDirectory(prefix="ddp_ppo_tests_") as folder:
        try:
            while waiting or running:
                while waiting and len(running) < num_workers:
                    running.append(RunningModules(waiting.pop(), Path(folder)))
                time.sleep(POLL_SECONDS)
                for module in [module for module in running if module.is_over()]:
                    report = module.collect()
                    running.remove(module)
                    total.add(report)
                    print(f"{module.name}: {report} ({module.seconds:.1f} s)", flush=True)
        finally:
            for module in running:
                module.kill()
    return total


def named(name: str, found: list[Path]) -> list[Path]:
    """The test modules that a word means: a module's name, its path or that of a folder, with or without `tests/`."""
    word = name.strip("/").removeprefix("tests/").removesuffix(".py")
    names = {path: str(path.relative_to(TESTS).with_suffix("")) for path in found}
    return [path for path, name in names.items() if f"/{name}".endswith(f"/{word}") or name.startswith(f"{word}/")]


def main() -> int:
    """Runs what the command line names and returns the exit code."""
    parser = argparse.ArgumentParser(description="Run the unit tests in several processes.")
    parser.add_argument("modules", nargs="*", help="test modules or folders, such as test_gae or maths (default: all)")
    parser.add_argument("--failed-checks", default="", help="checks that failed before: named again, and exit code 1")
    parser.add_argument("--report", type=Path, help=argparse.SUPPRESS)  # a module's own process
    args = parser.parse_args()
    if args.report:
        run_modules([*map(Path, args.modules)], args.report)
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # The largest files first, which are roughly the slowest: at the end no core waits for a long one.
    found = sorted(TESTS.rglob("test_*.py"), key=lambda path: path.stat().st_size, reverse=True)
    wanted = {path for name in args.modules for path in named(name, found)}
    if unknown := [name for name in args.modules if not named(name, found)]:
        parser.error(f"no such test module or folder: {', '.join(unknown)}")
    try:
        total = run_all([path for path in found if not wanted or path in wanted], os.cpu_count() or 1)
    except KeyboardInterrupt:
        return 130
    for output in total.outputs:
        print(f"\n{output}")
    if args.failed_checks:
        print(f"\nFAILED before the tests: {args.failed_checks}")
    print(total, flush=True)
    return int(total.failed > 0 or total.passed == 0 or bool(args.failed_checks))


if __name__ == "__main__":
    sys.exit(main())
