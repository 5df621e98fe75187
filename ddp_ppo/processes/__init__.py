"""How processes end: with their parent, with their siblings, or on a signal.

Imports nothing else from the package. Start with `lifetime.py`.
"""
