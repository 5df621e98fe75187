"""What a run will take of the machine: memory against its limit, busy cores, and environments that keep memory.

Shapes: T steps, K environments.
"""

from __future__ import annotations

import math
import os
import time
from itertools import pairwise

from ddp_ppo.check.trial import Report, Trial, call, random_actions, reset
from ddp_ppo.machine import this_machine
from ddp_ppo.processes.usage import usage_of
from ddp_ppo.runs.metric_table import ACTOR_CORES, ACTOR_MEMORY, GPU_MEMORY, LEARNER_CORES, LEARNER_MEMORY

_MIB, _GIB = 2**20, 2**30
_MUCH = 0.8  # of the memory
_WINDOW_SECONDS = 0.3  # the first of five is for what is loaded once
_NUM_WINDOWS = 5
_CHUNK = 16  # steps between two looks at the clock
_LEAK_MIB = 4.0  # after the first window; below, the allocator's own comings and goings


def check_resources(trial: Trial, report: Report) -> None:
    """Judges the memory that the short training took, and steps an environment for 1.5 s to see it grow."""
    row, plan, machine = trial.rows[-1], trial.plan, this_machine()
    report.figures["machine"] = machine.describe()
    memory = (row[LEARNER_MEMORY] + row[ACTOR_MEMORY]) * _MIB * plan.topology.num_learners / plan.topology.num_nodes
    if math.isfinite(memory):
        report.figures["memory"] = f"{memory / _GIB:.2f} GiB in all, {row[LEARNER_MEMORY]:,.0f} MiB for a learner"
        _judge_memory(report, memory, machine.memory_bytes)
    report.figures["busy cores"] = f"learner {row[LEARNER_CORES]:.2f}, its actors {row[ACTOR_CORES]:.2f}"
    if GPU_MEMORY in row:
        report.figures["GPU memory"] = f"{row[GPU_MEMORY]:,.0f} MiB"
    _judge_growth(trial, report)


def _judge_memory(report: Report, needed: float, limit: int) -> None:
    share = needed / limit
    words = f"the run's processes take {needed / _GIB:.2f} GiB of {limit / _GIB:.2f} GiB; use fewer actors"
    if share > 1.0:
        report.faults.append(words)
    elif share > _MUCH:
        report.notes.append(words)


def _judge_growth(trial: Trial, report: Report) -> None:
    """Memory that grows in every window is kept by the environment; a run would go on like that."""
    looks, num_steps = _looks(trial)
    growth = [after - before for before, after in pairwise(looks[1:])]
    report.figures["memory over steps"] = f"{looks[0]:.1f} -> {looks[-1]:.1f} MiB in {num_steps:,} steps"
    total = sum(growth)
    if not (total > _LEAK_MIB and min(growth) > 0.1 * total / len(growth)):
        return
    per_step = total * _MIB / (num_steps * len(growth) / _NUM_WINDOWS)
    run = per_step * trial.plan.num_env_steps
    words = f"memory grows by {per_step:,.0f} bytes per environment step, {run / _GIB:.1f} GiB over the run"
    advice = "the environment keeps something from every step or episode"
    limit = this_machine().memory_bytes
    (report.faults if run > limit else report.notes).append(f"{words}: {advice}")


def _looks(trial: Trial) -> tuple[list[float], int]:
    """Memory of this process in MiB after each window in which an environment was stepped, and its steps."""
    looks, num_steps = [usage_of(os.getpid()).memory_mib], 0
    with trial.envs(1) as env:
        reset(env, [1])
        for _ in range(_NUM_WINDOWS):
            deadline = time.monotonic() + _WINDOW_SECONDS
            while time.monotonic() < deadline:
                for action in random_actions(trial.env, _CHUNK, 1, seed=num_steps):
                    call("step", env.step, action)
                num_steps += _CHUNK
            looks.append(usage_of(os.getpid()).memory_mib)
    return looks, num_steps
