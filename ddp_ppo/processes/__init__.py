"""How processes end: with their parent, with their siblings, or on a signal; and running a function in another process.

Imports nothing else from the package. Start with `lifetime.py`.
"""
