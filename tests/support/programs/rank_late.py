"""Rank 1 does not come until rank 0 has given up. Both meet first, since the limit holds for forming the group too."""

import datetime
import os
import time

import torch
import torch.distributed

from ddp_ppo.distributed.group import CollectiveError, LearnerGroup
from tests.support.programs.two_ranks import finish, folder, rank, seen, topology

store = torch.distributed.FileStore(str(folder / "store"), 2)
store.set(f"here {rank}", "1")
store.wait(["here 0", "here 1"], datetime.timedelta(seconds=60))
start = 0.0
try:
    with LearnerGroup(topology, timeout_seconds=3) as learners:
        if rank == 0:
            start = time.monotonic()
            learners.average(torch.zeros(3))
        store.wait(["given up"], datetime.timedelta(seconds=60))
        os._exit(0)
except CollectiveError as error:
    seen |= {"error": str(error), "seconds": time.monotonic() - start}
    store.set("given up", "1")
    finish()
