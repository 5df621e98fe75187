"""Learning algorithms: the interface in `interface.py`, the table in `registry.py`, one folder per algorithm.

Imports sampling, policies, distributed and runs. Start with `interface.py`.
"""
