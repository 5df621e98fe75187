"""Environments that come with the project.

Imports only `protocols.py`. Start with `catch.py`.
"""
