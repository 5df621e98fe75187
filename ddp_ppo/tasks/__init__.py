"""Environments of this project's own.

Imports envs. Begin reading at `catch.py`.
"""
