"""Environments as arrays: building them, their spaces, saved states and column names.

Imports maths, actions and processes; torch-free. Start with `build.py`, then `gymnasium_env.py`.
"""
