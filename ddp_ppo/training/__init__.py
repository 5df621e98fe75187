"""One training run: its plan, its loop, what learners agree on, and what is recorded.

Imports maths, config, processes, envs, policies, distributed, sampling, runs, learners and report. Start with
`trainer.py`.
"""
