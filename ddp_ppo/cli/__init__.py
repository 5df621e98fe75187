"""The command line: what the words mean and what the commands do.

Imports all others, each command only what it needs. Begin reading at `commands.py`.
"""
