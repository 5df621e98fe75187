"""The files of a run: folder, checkpoints, models, metrics, events, and how they are read again.

Imports sampling and what stands below it. Begin reading at `folder.py`.
"""
