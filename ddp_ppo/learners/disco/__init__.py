"""The DiscoRL update rule (Oh et al. 2025, "Discovering state-of-the-art reinforcement learning algorithms").

A frozen network, meta-trained elsewhere, tells an agent what to predict. This folder holds that network's forward pass,
the agent and its learner, but no meta-training. Everything is computed in torch, each step as a pure function of
tensors. Imports no other learner. Start with `rule.py`, then `learner.py`.
"""
