"""Environments as arrays: building them, their spaces, their state, their columns.

Imports config, maths and processes; torch-free. Begin reading at `build.py`, then `gymnasium_env.py`.
"""
