"""HTML pages and plots: the report of one run, the comparison of several.

Imports maths, config and runs. Start with `report.py`.
"""
