"""Action spaces: for each kind its values, its limits and its distribution, in one module with one object.

Imports maths; torch-free. Begin reading at `action.py`, the seam; `kinds.py` has the tables. A new kind of action space
is a module here, a row in `kinds.py`, and a row in `envs/spaces.py`, which turns Gymnasium's space into it.
"""
