"""Pure functions: advantages, moments, distributions, statistics of returns, random streams.

Imports nothing else from the package; torch-free. Start with `gae.py`.
"""
