"""Learning algorithms: the interface in `interface.py`, the table in `registry.py`, one folder per algorithm.

Imports maths, actions, observations, config, policies, distributed, sampling and runs. Start with `interface.py`.
"""
