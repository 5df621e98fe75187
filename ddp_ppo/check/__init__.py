"""Checks before training: whether a task and its configuration are fit to train, stage by stage, PASS or FAIL.

Imports maths, config, processes, envs, distributed, sampling, runs, learners, export and training. Start with
`run.py`.
"""
