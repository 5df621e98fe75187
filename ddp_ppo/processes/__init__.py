"""How processes end: with their parents, with their siblings, on a signal.

Imports nothing of the package. Begin reading at `lifetime.py`.
"""
