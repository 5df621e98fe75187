"""What a trained policy achieves: episodes that are evaluated, played, recorded and drawn.

Imports maths, actions, config, processes, envs, sampling, runs and report. Start with `evaluate.py`.
"""
