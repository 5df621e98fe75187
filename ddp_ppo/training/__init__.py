"""One training run: its plan, its loop, what learners agree on, and what is recorded.

Imports learners and report. Start with `trainer.py`.
"""
