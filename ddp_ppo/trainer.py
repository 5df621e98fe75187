"""The name under which programs imported `train` before there were folders: `from ddp_ppo.trainer import train`.

New programs use `ddp_ppo.train`, which also reads configuration files.
"""

from ddp_ppo.training.trainer import train

__all__ = ["train"]
