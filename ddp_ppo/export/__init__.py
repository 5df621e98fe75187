"""Trained policies as files for other programs, and how closely these files match the policy.

Imports runs, sampling, policies and envs. Start with `export.py`.
"""
