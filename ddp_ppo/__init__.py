"""ddp_ppo: PPO for MuJoCo and Gymnasium on every core and GPU of one machine. Importing it imports nothing else."""

__version__ = "0.1.0"
