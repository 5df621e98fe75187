"""Settings: their declarations, their rules, and reading them from YAML and the command line.

Imports nothing else from the package. Start with `settings.py`.
"""
