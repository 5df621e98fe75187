"""What a trained policy reaches: episodes evaluated, played, recorded and drawn.

Imports runs and export. Begin reading at `evaluate.py`.
"""
