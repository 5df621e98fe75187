"""Whether a task is fit to be trained: stage by stage, PASS or FAIL with figures.

Imports training and evaluation. Begin reading at `run.py`.
"""
