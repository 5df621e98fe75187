"""Programs of two learners, run by torchrun."""

import json
import tempfile
from pathlib import Path

from tests.support.process import PROGRAMS, Program

HANG_SECONDS = 120.0


def run_two(name):
    """Runs a program of tests/support/programs as two processes of torchrun; what the ranks saw, in their order."""
    with tempfile.TemporaryDirectory(prefix="ddp_ppo_test_") as folder:
        run_two_in(Path(folder), name)
        seen = [json.loads(found.read_text()) for found in sorted(Path(folder).glob("?.json"))]
    assert seen, "no rank has said anything"
    return seen


def run_two_in(folder, name):
    """The same, with what they leave in a folder."""
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", PROGRAMS / f"{name}.py", folder]
    with Program(*words, folder=folder, environ={"OMP_NUM_THREADS": "1"}) as program:
        ended = program.end(HANG_SECONDS)
    if ended.code:
        raise AssertionError(f"exit code {ended.code}\n{ended.out}\n{ended.err}")
