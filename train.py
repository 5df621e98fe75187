#!/usr/bin/env python3
"""Trains one configuration: `train.py config.yaml [key=value ...]`, alone or as every process of torchrun.

Spawned actors import this file again as their main module, so its top level imports nothing but the standard library.
"""

import sys

if __name__ == "__main__":
    from ddp_ppo.__main__ import command_line

    command_line(["train", *sys.argv[1:]])
