"""200,000 one-step episodes in 500 rounds: memory and file descriptors of every process stay what they are."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tests.long.report import Row, newest_run, start, verdict
from tests.support.process import read_csv

ROUNDS = 500
STEPS = 400  # of a round: 2 actors x 4 environments x 50
SETTLED = 20  # rounds after which everything has been loaded
MAX_MEGABYTES = 50.0
CONFIG = f"""
env_id: tests.support.fixtures:Count-v0
env_kwargs: {{length: 1}}
num_actors: 2
envs_per_actor: 4
rollout_length: 50
total_env_steps: {ROUNDS * STEPS}
minibatch_size: 200
num_epochs: 1
hidden_sizes: [8]
eval_interval: 25
eval_episodes: 2
checkpoint_interval: 10
run_name: a
"""
# With two learners each has one actor: 4 x 100 steps are the same 400.
LAYOUTS = {
    "one learner": ((), None),
    "two learners": (("device=cpu", "num_gpus=2", "rollout_length=50"), 2),
    "overlap": (("overlap=true",), None),
}


def run(folder: Path, part: str = "") -> Iterator[Row]:
    """One row for each process of each layout."""
    config = folder / "config.yaml"
    config.write_text(CONFIG)
    for layout, (words, nproc) in LAYOUTS.items():
        if part in layout:
            yield from check(folder / layout.replace(" ", "-"), layout, config, words, nproc)


def check(folder: Path, layout: str, config: Path, words: tuple[str, ...], nproc: int | None) -> Iterator[Row]:
    """Looks at every process ten times a second while the run lasts."""
    seen: dict[int, list[tuple[float, int]]] = defaultdict(list)
    names: dict[int, str] = {}
    with start(folder, config, *words, nproc=nproc) as program:
        program.wait_until(lambda: f"round {SETTLED}/" in program.out, "settled run")
        while program.process.poll() is None and f"round {ROUNDS}/" not in program.out:
            for pid in program.alive():
                with suppress(OSError):
                    names.setdefault(pid, name_of(pid, program.process.pid))
                    seen[pid].append((megabytes(pid), len(os.listdir(f"/proc/{pid}/fd"))))
            time.sleep(0.1)
        ended = program.end(60)
    rows = read_csv(newest_run(folder) / "metrics.csv")
    episodes = sum(int(row["rollout/episodes"]) for row in rows)
    is_whole = ended.code == 0 and not ended.left and episodes == ROUNDS * STEPS
    yield Row(verdict(is_whole), layout, f"{episodes:,} episodes, {len(rows)} rounds, {ended.seconds:.0f} s")
    for pid, looks in seen.items():
        memory, descriptors = zip(*looks, strict=True)
        growth = max(memory) - memory[0]
        # A file is open only while it is written: those that stay are the fewest of a stretch.
        quarter = max(1, len(looks) // 4)
        first, last = min(descriptors[:quarter]), min(descriptors[-quarter:])
        is_right = len(looks) > 10 and growth < MAX_MEGABYTES and first == last
        figures = f"{memory[0]:.1f} MB and up to {growth:.1f} more; descriptors {first} -> {last}"
        figures += f" (min {min(descriptors)}, max {max(descriptors)}, {len(looks)} looks)"
        yield Row(verdict(is_right), f"{layout}, {names[pid]}", figures)


def name_of(pid: int, launcher: int) -> str:
    """What a process is."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    kinds = {"resource_tracker": "tracker", "multiprocessing.spawn": "actor", "distributed.run": "agent"}
    kind = next((name for part, name in kinds.items() if part in words), "learner")
    return f"{kind} {pid - launcher}"


def megabytes(pid: int) -> float:
    """Resident memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
