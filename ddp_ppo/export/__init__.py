"""Trained policies as files for other programs, and how closely these files match the policy.

Imports maths, actions, config, envs, policies, sampling and runs. Start with `export.py`.
"""
