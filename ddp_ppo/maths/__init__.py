"""Pure functions: advantages, moments, distributions, statistics of returns, random streams.

Imports nothing of the package; torch-free. Begin reading at `gae.py`.
"""
