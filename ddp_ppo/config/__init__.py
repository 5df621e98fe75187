"""Settings: what they are, what they allow, how they are read from YAML and the command line.

Imports nothing of the package but maths. Begin reading at `settings.py`.
"""
