"""Sampling: shared memory, the actor processes that fill it with rollouts, and the loops that run a policy.

Imports maths, processes, envs and policies; torch-free. Start with `actor.py`.
"""
