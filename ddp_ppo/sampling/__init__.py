"""Rollouts: shared memory, the actor processes that fill it, and the loops that drive a policy.

Imports envs and policies, never learners; torch-free. Begin reading at `actor.py`.
"""
