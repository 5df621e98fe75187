"""The command line: one function per command.

Imports every other folder, each command only what it needs. Start with `commands.py`.
"""
