"""Policies: the parameters as one flat vector, the observation normaliser, the network in NumPy and in torch.

Imports maths, actions and observations. Start with `network.py`, then `torch_policy.py`, which is the reference.
"""
