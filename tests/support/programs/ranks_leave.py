"""Both ranks leave in mid-round; then rank 0 collects what rank 1 has said, and what it will never say."""

import time

import numpy as np

from ddp_ppo.distributed.group import LearnerGroup
from tests.support.programs.two_ranks import finish, rank, seen, topology

with LearnerGroup(topology, timeout_seconds=60) as learners:
    learners.leave("asked to stop")
    found = learners.collect("round 7", {"rank": rank, "array": np.full(2, rank)}, seconds=30.0)
    seen["ranks"] = [[one["rank"], one["array"].tolist()] for one in found]
    start = time.monotonic()
    seen["late"] = learners.collect("round 8", rank, seconds=1.0) if rank == 0 else []
    seen["seconds"] = time.monotonic() - start
finish()
