"""Checks before training: whether a task and its configuration are fit to train, stage by stage, PASS or FAIL.

Imports training and export. Start with `run.py`.
"""
