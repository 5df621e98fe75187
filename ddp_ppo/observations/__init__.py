"""Observation spaces: the flat row that everything stores, its named parts, and the views that networks have of it.

Imports nothing else from the package; torch-free. Begin reading at `layout.py`.
"""
