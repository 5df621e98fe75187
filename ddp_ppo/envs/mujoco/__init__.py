"""Gymnasium's MuJoCo tasks as arrays over K simulations, straight on `mujoco.batch`.

Imported only where such a task runs. Begin reading at `env.py`, then `tasks.py`.
"""
