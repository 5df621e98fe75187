"""Gymnasium's MuJoCo tasks as arrays over K simulations, run directly on `mujoco.batch`.

Imported only when such a task runs. Start with `env.py`, then `tasks.py`.
"""
