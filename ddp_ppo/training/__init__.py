"""One training run: what it will do, the loop, what learners agree on, what is written down.

Imports everything but the commands. Begin reading at `trainer.py`.
"""
