"""Trains a configuration until the program ends it: `end_after.py CONFIG.yaml ROUNDS [KEY=VALUE ...]`.

Under torchrun the last rank alone asks for the end.
"""

import os
import sys


def main() -> None:
    """Trains, and prints what the call has returned: the rounds of its history and how it ended."""
    from ddp_ppo.config.load import load_config
    from ddp_ppo.training.trainer import train

    path, last, *words = sys.argv[1:]
    rank, world_size = (int(os.environ.get(name, default)) for name, default in (("RANK", "0"), ("WORLD_SIZE", "1")))
    listener = (lambda row: row["round"] < int(last)) if rank == world_size - 1 else None
    result = train(load_config(path, words), on_round=listener)
    print(f"rank {rank}: rounds {result.metrics['round'].tolist()}, signal {result.stop_signal}", flush=True)


if __name__ == "__main__":
    main()
