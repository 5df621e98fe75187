"""A base for tasks that step K simulations of one MuJoCo model as arrays.

A task is a class with a `Design`, which names its observations, rewards and ends. Imports protocols and envs. Start
with `design.py`, then `task.py`; `gym_env.py` makes an ordinary Gymnasium environment of any task.
"""
