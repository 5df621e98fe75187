"""Kills a run with SIGKILL at random moments and resumes it: the same parameters and metrics as the unbroken run."""

from __future__ import annotations

import hashlib
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ddp_ppo.runs.checkpoint import find_checkpoint
from tests.long.report import Row, newest_run, start, verdict
from tests.support.process import files_in, read_csv, without_times
from tests.support.results import differences, last_checkpoint

NUM_KILLS = 20
ROUNDS = 12
CONFIG = """
num_actors: 2
envs_per_actor: 2
minibatch_size: 32
eval_interval: 4
eval_episodes: 2
checkpoint_interval: 2
run_name: a
"""
# 256 steps a round; enough epochs that a round takes about 0.2 s.
TASKS = {
    "HalfCheetah-v5": "rollout_length: 64\nnum_epochs: 40\n",
    "CartPole-v1": "rollout_length: 64\nnum_epochs: 60\n",
}


def run(folder: Path, part: str = "") -> Iterator[Row]:
    """One row for each kill, and one for each task."""
    generator = random.Random(1)
    for task, more in TASKS.items():
        if part not in task:
            continue
        home = folder / task
        home.mkdir()
        config = home / "config.yaml"
        config.write_text(f"env_id: {task}\n{more}{CONFIG}")
        words = (config, f"total_env_steps={256 * ROUNDS}")
        with start(home / "whole", *words) as program:
            whole = program.end(120)
        yield Row(verdict(whole.code == 0 and not whole.left), f"{task} unbroken", f"{whole.seconds:.1f} s")
        expected = summary(home / "whole")
        rounds = [float(row["time/round_seconds"]) for row in read_csv(newest_run(home / "whole") / "metrics.csv")]
        begin = max(0.3, whole.seconds - sum(rounds) - 0.5)
        equal = 0
        for number in range(NUM_KILLS):
            moment = generator.uniform(0.0, ROUNDS + 1.0)  # rounds that have ended, and a part of the next one
            part_seconds = moment % 1.0 * (begin if moment < 1.0 else max(rounds[1:]))
            row = kill_once(home, number, words, (int(moment), part_seconds), expected)
            equal += row.verdict == "passed"
            yield row._replace(case=f"{task} {row.case}")
        figures = f"{equal} of {NUM_KILLS} equal, parameters sha256 {expected[0][:16]}"
        yield Row(verdict(equal == NUM_KILLS), f"{task} all", figures)


def kill_once(
    home: Path, number: int, words: tuple[object, ...], moment: tuple[int, float], expected: tuple[str, str]
) -> Row:
    """Kills some seconds after so many rounds have ended, resumes until the run is whole, compares."""
    folder = home / f"kill-{number}"
    with start(folder, *words) as program:
        while program.process.poll() is None and num_rows(folder) < moment[0]:
            time.sleep(0.001)
        try:
            program.process.wait(moment[1])
            how = "it had ended"
        except subprocess.TimeoutExpired:
            program.process.kill()
            how = "killed"
        ended = program.end(30, grace_seconds=10)
    run = newest_run(folder)
    rounds = num_rows(folder)
    half = [] if run is None else [name for name in files_in(run) if name.endswith(".tmp")]
    with start(folder, *words, "resume=auto") as program:
        resumed = program.end(120)
    found = summary(folder)
    problems = []
    if ended.left:
        problems.append(f"{len(ended.left)} processes left")
    if resumed.code:
        problems.append(f"resume: exit {resumed.code}: {resumed.err.strip()[-200:]}")
    problems += ["parameters differ"] if found[0] != expected[0] else []
    problems += ["metrics differ"] if found[1] != expected[1] else []
    others = differences(last_checkpoint(newest_run(home / "whole")), last_checkpoint(newest_run(folder)))
    problems += [f"the checkpoint differs in {others[:3]}"] if others else []
    figures = f"{how} {moment[1]:.2f} s after {rounds} rounds{', while it wrote a file' if half else ''}"
    return Row(verdict(not problems), f"{number + 1}", f"{figures}; sha256 {found[0][:16]}{' '.join(['', *problems])}")


def num_rows(folder: Path) -> int:
    """Rounds that the run in a folder has written down."""
    run = newest_run(folder)
    with suppress(OSError):
        return len(read_csv(run / "metrics.csv")) if run else 0
    return 0


def summary(folder: Path) -> tuple[str, str]:
    """sha256 of the final parameters, and of the CSV without the columns that a clock filled."""
    run = newest_run(folder)
    if run is None:
        return "", ""
    parameters = find_checkpoint(run)[1]["ranks"][0]["learner"]["parameters"]
    rows = without_times(read_csv(run / "metrics.csv"))
    return hashlib.sha256(parameters.tobytes()).hexdigest(), hashlib.sha256(repr(rows).encode()).hexdigest()
