"""Sampling: shared memory, the actor processes that fill it with rollouts, and the loops that run a policy.

Imports envs and policies, never learners; torch-free. Start with `actor.py`.
"""
