"""What programs of two learners share: which of them this is, and how it says what it saw.

Each is started by torchrun as `NAME.py FOLDER` and writes what it saw to `FOLDER/<rank>.json`.
"""

import json
import os
import sys
from pathlib import Path

import torch

from ddp_ppo.distributed.topology import TrainingTopology

torch.set_num_threads(1)
folder, rank = Path(sys.argv[1]), int(os.environ["RANK"])
topology = TrainingTopology(
    rank=rank, local_rank=rank, num_learners=2, device="cpu", backend="gloo", envs_of_actors=(1,)
)
seen = {}


def tell():
    """Writes what this rank saw."""
    (folder / f"{rank}.json").write_text(json.dumps(seen))


def finish():
    """Tells and ends at once, without a word to the other rank."""
    tell()
    os._exit(0)
