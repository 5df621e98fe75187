"""Robots that walk: the quadruped of this project, and any other four-legged robot with twelve joints.

Imports `tasks.vectorised`. Start with `quadruped.py`; `model.py` reads and simplifies a robot's MJCF.
"""
