"""Environments that come with the project.

Imports envs. Start with `catch.py` for a task in twenty lines, `vectorised` for tasks on many MuJoCo simulations at
once, and `robots` for robots that walk.
"""
