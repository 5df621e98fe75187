"""Proximal policy optimisation: loss, learner, and the ways to take its gradient steps in `updates/`.

Knows nothing of other learners. Begin reading at `loss.py`, then `learner.py`.
"""
