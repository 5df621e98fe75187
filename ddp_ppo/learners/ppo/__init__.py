"""Proximal policy optimisation: the loss, the learner, and in `updates/` the ways to compute gradient steps.

Imports no other learner. Start with `loss.py`, then `learner.py`.
"""
