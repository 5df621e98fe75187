"""Several learners: which learner a process is, and what learners exchange through torch.distributed.

Imports config and processes. Start with `topology.py`.
"""
