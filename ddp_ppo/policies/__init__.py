"""Policies: their parameters as one flat vector, the normaliser, the network in NumPy and in torch.

Imports maths and protocols. Begin reading at `network.py`, then `torch_policy.py`, which is the definition.
"""
