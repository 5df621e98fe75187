"""What a trained policy achieves: episodes that are evaluated, played, recorded and drawn.

Imports runs, sampling and report. Start with `evaluate.py`.
"""
