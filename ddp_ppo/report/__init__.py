"""HTML pages and plots: the report of one run, the comparison of several.

Imports runs. Start with `report.py`.
"""
