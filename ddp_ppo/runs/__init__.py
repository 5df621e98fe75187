"""The files of a run, written and read: its folder, checkpoints, models, metrics and events.

Imports maths, config, envs and policies. Start with `folder.py`.
"""
