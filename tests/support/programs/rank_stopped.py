"""Rank 1 stops itself; torchrun would wait 30 s for it."""

import os
import signal

import torch

from ddp_ppo.distributed.group import CollectiveError, LearnerGroup
from tests.support.programs.two_ranks import rank, topology

with LearnerGroup(topology, timeout_seconds=3) as learners:
    learners.average(torch.zeros(3))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    try:
        learners.average(torch.zeros(3))
    except CollectiveError as error:
        print(error, flush=True)
        os._exit(1)
