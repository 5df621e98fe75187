#!/usr/bin/env python3
"""The control of docs/disco.md: DiscoRL with a random rule, all else equal. It must not learn.

    python bench/disco_control.py configs/disco_cartpole.yaml seed=1 run_name=random

Every array of the published weights is replaced by one of its shape from a truncated normal distribution with the
standard deviation 1 / sqrt(inputs), biases by zeros: as the rule was before it was discovered.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ddp_ppo.config.load import load_config
from ddp_ppo.learners import registry as learners
from ddp_ppo.learners.disco.weights import Weights, load_weights
from ddp_ppo.training.trainer import train


def random_weights(path: Path) -> Weights:
    """Arrays of the published names and shapes, without what was discovered."""
    generator = np.random.default_rng(1)

    def draw(shape: tuple[int, ...]) -> np.ndarray:
        deviates = generator.standard_normal(shape)
        while (outside := np.abs(deviates) > 2.0).any():
            deviates[outside] = generator.standard_normal(outside.sum())
        return (deviates / np.sqrt(np.prod(shape[:-1]))).astype(np.float32)

    return {
        name: draw(array.shape) if array.ndim > 1 else np.zeros_like(array)
        for name, array in load_weights(path).items()
    }


if __name__ == "__main__":
    learners.load_weights = random_weights
    train(load_config(sys.argv[1], sys.argv[2:]))
