"""The command line: the options of each command, and one function per command.

Imports every other folder, each command only what it needs. Start with `parser.py`, then `commands.py`.
"""
