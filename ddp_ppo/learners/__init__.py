"""Learning algorithms: the seam in `interface.py`, their table in `registry.py`, a folder for each.

Imports sampling, policies, distributed and runs. Begin reading at `interface.py`.
"""
