"""Observation spaces: the flat row that everything stores, its named parts, and the views that networks have of it.

Imports nothing of the package; torch-free. Begin reading at `layout.py`.
"""
