"""Which learner a process is, and what learners tell each other through torch.distributed.

Imports config and processes. Begin reading at `topology.py`.
"""
