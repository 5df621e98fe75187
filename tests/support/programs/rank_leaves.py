"""Rank 1 leaves with an error before the call in which rank 0 waits for it; before that rank 0's value is shared."""

import os
import time

import torch

from ddp_ppo.distributed.group import CollectiveError, LearnerGroup
from tests.support.programs.two_ranks import finish, rank, seen, tell, topology

seen["shared"] = []
start = 0.0
try:
    with LearnerGroup(topology, timeout_seconds=60) as learners:
        seen["shared"].append(learners.share({"folder": f"of rank {rank}"}))
        if rank == 1:
            tell()
            raise ValueError("boom-17\nand more")
        start = time.monotonic()
        learners.average(torch.zeros(3))
except CollectiveError as error:
    seen |= {"error": str(error), "seconds": time.monotonic() - start}
except ValueError:
    time.sleep(3)  # its process lives on for a while: what counts is that it has left
    os._exit(0)
finish()
