"""Runs as pages and pictures: one run's report, several runs compared.

Imports runs. Begin reading at `report.py`.
"""
