"""PPO's gradient steps: by torch autograd (the definition), in NumPy, as CUDA graphs.

What NumPy does is torch-free. Begin reading at `update.py`, then `torch_update.py`.
"""
