"""Two DiscoRL learners each train on their half of the stored batches; each writes what it has after every update."""

import torch

from ddp_ppo.distributed.group import LearnerGroup
from ddp_ppo.learners.disco.learner import DiscoLearner
from tests.support.disco_golden import disco_config, golden, golden_batch, published_meta, small_agent
from tests.support.programs.two_ranks import folder, rank, topology

arrays, steps = golden("update5_A2_ddp2"), []
with LearnerGroup(topology, timeout_seconds=60) as learners:
    config = disco_config(learning_rate=float(arrays["lr"]))
    learner = DiscoLearner(config, small_agent(arrays, 2), meta=published_meta(), average=learners.average, rank=rank)
    for number in range(5):
        metrics = learner.update(golden_batch(arrays, number, slice(2 * rank, 2 * rank + 2)))
        common = {name: tensor.clone() for name, tensor in learner.common().tensors.items()}
        steps.append({"metrics": metrics, "common": common})
torch.save(steps, folder / f"{rank}.pt")
