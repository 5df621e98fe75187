"""Environments that come with the project.

Imports nothing else from the package but protocols. Start with `catch.py`.
"""
