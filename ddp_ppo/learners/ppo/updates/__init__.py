"""PPO's gradient steps: with torch autograd (the reference), in NumPy, and as CUDA graphs.

The NumPy gradient and the critic's worker are torch-free. Start with `update.py`, then `torch_update.py`.
"""
