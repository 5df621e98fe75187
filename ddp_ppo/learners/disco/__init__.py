"""The DiscoRL update rule (Oh et al. 2025, "Discovering state-of-the-art reinforcement learning algorithms").

A frozen network that was meta-trained elsewhere tells an agent what to predict; here are that network's forward pass,
the agent and its learner. Meta-training is not. Torch only, single steps are pure functions of tensors.
"""
